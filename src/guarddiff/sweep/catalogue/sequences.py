"""Sequences: convolutions over text and sound."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named
from guarddiff.sweep.catalogue.entry import Entry, module

CONV = "convolutions in time"
LINE, LINES = (2, 8, 4), ((2, 12, 4), (3, 9, 4), (1, 6, 4))
SOUND, SOUNDS = (2, 1, 60), ((2, 1, 90), (3, 1, 47), (1, 1, 120))
IDS, MORE = (2, 7), ((2, 12), (3, 5), (1, 9))


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_text(), *_sound(), *_causal()]


def ids(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Token ids from 1 to 9."""
    del place
    return torch.randint(1, 10, shape)


class Text(nn.Module):
    """TextCNN: kernels of several lengths, each pooled over all the time there is, in ``how`` people pool."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.table = how, nn.Embedding(10, 4)
        self.layers = nn.ModuleList(nn.Conv1d(4, 3, size) for size in (2, 3, 4))
        self.out = nn.Linear(9, 2)

    def _pooled(self, x: torch.Tensor) -> torch.Tensor:
        if self.how == "kernel":
            return F.max_pool1d(x, x.size(2)).squeeze(2)
        if self.how == "shape":
            return F.max_pool1d(x, x.shape[-1])[:, :, 0]
        if self.how == "adaptive":
            return F.adaptive_max_pool1d(x, 1).squeeze(-1)
        return x.max(-1).values if self.how == "max" else x.mean(-1)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.table(x).transpose(1, 2)
        return self.out(torch.cat([self._pooled(layer(x).relu()) for layer in self.layers], 1))


class Characters(nn.Module):
    """Words by their characters: a convolution in each word, the words into a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.conv = nn.Embedding(10, 4), nn.Conv1d(4, 3, 3, padding=1)
        self.layer = nn.GRU(3, 4, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> Any:
        b, n, characters = x.shape
        found = self.conv(self.table(x.view(-1, characters)).transpose(1, 2)).amax(-1)
        return self.layer(found.view(b, n, -1))[0]


class Pyramid(nn.Module):
    """DPCNN: halved with padding until one step is left."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> Any:
        x = x.transpose(1, 2)
        while x.shape[2] > 2:
            x = F.max_pool1d(F.pad(x, (0, 1)), 3, 2)
            x = x + self.conv(x.relu())
        return x.amax(2)


def _text() -> list[Entry]:
    how = ("kernel", "shape", "adaptive", "max", "mean")
    return [
        *(
            module(CONV, f"TextCNN, pooled by {name}", functools.partial(Text, name), IDS, *MORE, fill=ids)
            for name in how
        ),
        module(CONV, "TextCNN, batch of one", lambda: Text("max"), (1, 7), (2, 12), (3, 5), fill=ids),
        module(CONV, "words by characters", Characters, (2, 3, 5), (2, 4, 7), (3, 2, 4), fill=ids),
        module(CONV, "halved to one step", Pyramid, LINE, (2, 16, 4), (3, 5, 4)),
    ]


class Extractor(nn.Module):
    """wav2vec 2.0's first layers: strided convolutions, the first with a group norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv1d(1, 4, 10, 5, bias=False), nn.GroupNorm(4, 4)
        self.second, self.third = nn.Conv1d(4, 4, 3, 2, bias=False), nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> Any:
        x = F.gelu(self.norm(self.first(x)))
        return self.third(F.gelu(self.second(x)).transpose(1, 2))


class Positional(nn.Module):
    """wav2vec 2.0's positions by a grouped convolution; an even kernel gives one step too many."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 6, padding=3, groups=2)

    def forward(self, x: torch.Tensor) -> Any:
        places = self.conv(x.transpose(1, 2))[:, :, :-1]
        return x + F.gelu(places).transpose(1, 2)


class Subsampled(nn.Module):
    """Two strided convolutions over frames and features, a linear layer over the rest (ESPnet, WeNet)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 3, 3, 2), nn.Conv2d(3, 3, 3, 2)
        self.out = nn.Linear(3 * (((9 - 1) // 2 - 1) // 2), 4)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.second(self.first(x.unsqueeze(1)).relu()).relu()
        b, c, t, f = x.size()
        x = self.out(x.transpose(1, 2).contiguous().view(b, t, c * f))
        return x * math.sqrt(4) + torch.arange(t)[:, None] / 10


class Lengths(nn.Module):
    """Lengths after convolutions, worked out along with them, and a mask of them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3, 2)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        x = self.conv(x.transpose(1, 2)).transpose(1, 2)
        lengths = (lengths - 1) // 2
        return x * (torch.arange(x.shape[1])[None] < lengths[:, None]).unsqueeze(2), lengths


class Stacked(nn.Module):
    """Frames stacked four by four, the rest left out."""

    def forward(self, x: torch.Tensor) -> Any:
        b, n, d = x.shape
        return x[:, : n - n % 4].reshape(b, n // 4, d * 4)


class Upsampler(nn.Module):
    """A vocoder: transposed convolutions, the result cut to a multiple of the frames."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.out = nn.ConvTranspose1d(4, 4, 8, 4, padding=2), nn.Conv1d(4, 1, 3, padding=1)

    def forward(self, x: torch.Tensor) -> Any:
        return self.out(F.leaky_relu(self.up(x.transpose(1, 2)), 0.1)).tanh().squeeze(1)[:, : x.shape[1] * 4]


class Masking(nn.Module):
    """Conv-TasNet: an encoder, masks for two speakers, a decoder, cut or padded to the length that came in."""

    def __init__(self, padded: bool) -> None:
        super().__init__()
        self.padded, self.encoder, self.decoder = padded, nn.Conv1d(1, 4, 8, 4), nn.ConvTranspose1d(4, 1, 8, 4)
        self.mask = nn.Conv1d(4, 8, 1)

    def forward(self, x: torch.Tensor) -> Any:
        n = x.shape[-1]
        if self.padded:
            x = F.pad(x, (0, (4 - (n - 8) % 4) % 4))
        found = self.encoder(x).relu()
        masks = self.mask(found).sigmoid().view(x.shape[0], 2, 4, -1)
        both = self.decoder((masks * found.unsqueeze(1)).flatten(0, 1)).view(x.shape[0], 2, -1)
        return both[..., :n] if self.padded else F.pad(both, (0, n - both.shape[-1]))


def _lengths(place: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.arange(shape[0]) % 3 + 3 if place else torch.randn(shape)


def _sound() -> list[Entry]:
    frames, others = (2, 12, 9), ((2, 17, 9), (3, 22, 9), (1, 30, 9))
    return [
        module(CONV, "wav2vec, first layers", Extractor, SOUND, *SOUNDS),
        module(CONV, "wav2vec, first layers, batch of one", Extractor, (1, 1, 60), (2, 1, 90), (3, 1, 47)),
        module(CONV, "wav2vec, positions", Positional, LINE, *LINES),
        module(CONV, "subsampled by four", Subsampled, frames, *others),
        module(CONV, "subsampled by four, bounded", Subsampled, frames, (3, 17, 9), (4, 22, 9), dynamic=_frames()),
        Entry(CONV, "lengths with them", Lengths, (LINE, (2,)), (((2, 12, 4), (2,)), ((4, 9, 4), (4,))), fill=_lengths),
        module(CONV, "frames stacked by four", Stacked, LINE, *LINES),
        module(CONV, "vocoder", Upsampler, LINE, *LINES),
        module(CONV, "speakers apart", lambda: Masking(False), SOUND, *SOUNDS),
        module(CONV, "speakers apart, padded", lambda: Masking(True), SOUND, *SOUNDS),
    ]


def _frames() -> list[dict[int, Any]]:
    return [{0: torch.export.Dim("batch"), 1: torch.export.Dim("frames", min=11, max=64)}]


class Causal(nn.Module):
    """A temporal net's block: padded on both sides and chopped, or on the left alone."""

    def __init__(self, chopped: bool, dilation: int = 2) -> None:
        super().__init__()
        self.chopped, self.past = chopped, 2 * dilation
        self.conv = nn.Conv1d(4, 4, 3, padding=self.past if chopped else 0, dilation=dilation)

    def forward(self, x: torch.Tensor) -> Any:
        x = x.transpose(1, 2)
        found = self.conv(x)[:, :, : -self.past] if self.chopped else self.conv(F.pad(x, (self.past, 0)))
        return (x + found.relu()).transpose(1, 2)


class Wave(nn.Module):
    """WaveNet's gated blocks; what is handed on is cut to the shorter length."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(4, 8, 2, dilation=2**i) for i in range(2))

    def forward(self, x: torch.Tensor) -> Any:
        x = x.transpose(1, 2)
        total = None
        for layer in self.layers:
            value, gate = layer(x).chunk(2, 1)
            found = value.tanh() * gate.sigmoid()
            x = x[..., -found.shape[-1] :] + found
            total = found if total is None else total[..., -found.shape[-1] :] + found
        return total


class Streamed(nn.Module):
    """A causal convolution that takes the last steps of the chunk before and hands its own on."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3)

    def forward(self, x: torch.Tensor, past: torch.Tensor) -> Any:
        x = torch.cat([past, x], 1)
        return self.conv(x.transpose(1, 2)).transpose(1, 2), x[:, -2:]


class Conformer(nn.Module):
    """A Conformer's convolution module."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv1d(4, 8, 1), nn.Conv1d(4, 4, 1)
        self.depth, self.norm = nn.Conv1d(4, 4, 5, padding=2, groups=4), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> Any:
        x = F.glu(self.first(x.transpose(1, 2)), dim=1)
        return self.last(F.silu(self.norm(self.depth(x)))).transpose(1, 2)


def _causal() -> list[Entry]:
    return [
        module(CONV, "causal, chopped", lambda: Causal(True), LINE, *LINES),
        module(CONV, "causal, padded on the left", lambda: Causal(False), LINE, *LINES),
        module(CONV, "gated blocks of WaveNet", Wave, LINE, *LINES),
        Entry(CONV, "streamed", Streamed, (LINE, (2, 2, 4)), (((2, 12, 4), (2, 2, 4)), ((3, 3, 4), (3, 2, 4)))),
        module(CONV, "Conformer", Conformer, LINE, *LINES),
        module(
            CONV, "causal, named", lambda: Causal(False), LINE, (3, 12, 4), (4, 9, 4), dynamic=named(batch=0, steps=1)
        ),
    ]
