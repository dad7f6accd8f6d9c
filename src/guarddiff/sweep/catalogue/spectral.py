"""Spectra: Fourier and cosine transforms, windows made by size, features of sound."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from guarddiff.sweep.catalogue.dims import named, strict
from guarddiff.sweep.catalogue.entry import Entry, module, one, two

FOURIER, MATRIX, WINDOW, SOUND, MIXING = (
    "Fourier transforms",
    "transforms by a matrix",
    "windows by size",
    "features of sound",
    "mixing in frequencies",
)
ROW, ROWS = (2, 8), ((2, 12), (3, 9), (1, 6))
LINE, LINES = (2, 8, 4), ((2, 12, 4), (3, 9, 4), (1, 6, 4))
MAP, MAPS = (2, 3, 6, 8), ((2, 3, 8, 6), (1, 3, 9, 10))
WAVE, WAVES = (2, 40), ((2, 64), (3, 33), (1, 50))


def entries() -> list[Entry]:
    """The entries of this shelf."""
    return [*_transforms(), *_inverse(), *_matrices(), *_windows(), *_framed(), *_sounds(), *_mixing()]


def real(x: torch.Tensor) -> torch.Tensor:
    """Real and imaginary parts as a last axis."""
    return torch.view_as_real(x)


def _transforms() -> list[Entry]:
    return [
        one(FOURIER, "fft", lambda x: real(torch.fft.fft(x)), ROW, *ROWS),
        one(FOURIER, "fft, length given", lambda x: real(torch.fft.fft(x, n=x.shape[1])), ROW, *ROWS),
        one(FOURIER, "fft, length fixed", lambda x: real(torch.fft.fft(x, n=8)), ROW, (3, 8), (5, 8)),
        one(FOURIER, "fft, batch alone", lambda x: real(torch.fft.fft(x)), ROW, (3, 8), (5, 8)),
        one(FOURIER, "fft, ortho", lambda x: real(torch.fft.fft(x, norm="ortho")), ROW, *ROWS),
        one(FOURIER, "rfft", lambda x: real(torch.fft.rfft(x)), ROW, *ROWS),
        one(FOURIER, "rfft, size", lambda x: torch.fft.rfft(x).abs(), ROW, *ROWS),
        one(FOURIER, "rfft, batch alone", lambda x: real(torch.fft.rfft(x)), ROW, (3, 8), (5, 8)),
        one(FOURIER, "rfft along the steps", lambda x: real(torch.fft.rfft(x, dim=1)), LINE, *LINES),
        one(FOURIER, "rfft, padded to twice", lambda x: real(torch.fft.rfft(x, n=2 * x.shape[1])), ROW, *ROWS),
        one(FOURIER, "rfft2", lambda x: real(torch.fft.rfft2(x)), MAP, *MAPS),
        one(FOURIER, "fft2, size shifted", lambda x: torch.fft.fftshift(torch.fft.fft2(x).abs(), (-2, -1)), MAP, *MAPS),
        one(FOURIER, "fftshift", lambda x: torch.fft.fftshift(x, 1), ROW, *ROWS),
        one(FOURIER, "fftfreq", lambda x: x * torch.fft.fftfreq(x.shape[1]), ROW, *ROWS),
        one(
            FOURIER,
            "rfft, named",
            lambda x: real(torch.fft.rfft(x)),
            ROW,
            (3, 12),
            (4, 9),
            dynamic=named(rows=0, steps=1),
        ),
    ]


def _autocorrelation(x: torch.Tensor) -> Any:
    """Autoformer: correlation with itself by way of the spectrum."""
    spectrum = torch.fft.rfft(x, dim=1)
    return torch.fft.irfft(spectrum * torch.conj(spectrum), n=x.shape[1], dim=1)


def _low_pass(x: torch.Tensor) -> Any:
    spectrum = torch.fft.rfft(x, dim=1)
    kept = torch.arange(spectrum.shape[1]) < 3
    return torch.fft.irfft(spectrum * kept[:, None], n=x.shape[1], dim=1)


def _long_convolution(x: torch.Tensor) -> Any:
    """Hyena, S4: a kernel as long as the sequence, padded to twice the length."""
    n = x.shape[1]
    kernel = torch.exp(-torch.arange(n).float() / 3)
    product = torch.fft.rfft(x, n=2 * n, dim=1) * torch.fft.rfft(kernel, n=2 * n)[:, None]
    return torch.fft.irfft(product, n=2 * n, dim=1)[:, :n]


def _inverse() -> list[Entry]:
    return [
        one(
            FOURIER,
            "there and back",
            lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=1), n=x.shape[1], dim=1),
            LINE,
            *LINES,
        ),
        one(
            FOURIER, "there and back, even lengths", lambda x: torch.fft.irfft(torch.fft.rfft(x)), ROW, (2, 12), (3, 6)
        ),
        one(FOURIER, "there and back, complex", lambda x: torch.fft.ifft(torch.fft.fft(x)).real, ROW, *ROWS),
        one(FOURIER, "autocorrelation", _autocorrelation, LINE, *LINES),
        one(FOURIER, "low pass", _low_pass, LINE, *LINES),
        one(FOURIER, "long convolution", _long_convolution, LINE, *LINES),
        one(FOURIER, "low pass, batch alone", _low_pass, LINE, (3, 8, 4), (5, 8, 4)),
    ]


def _cosine(n: int) -> torch.Tensor:
    places = torch.arange(n, dtype=torch.float32)
    basis = torch.cos(math.pi / n * (places[None, :] + 0.5) * places[:, None])
    basis[0] *= 1 / math.sqrt(2)
    return basis * math.sqrt(2 / n)


def _cosine_tensor(n: int) -> torch.Tensor:
    """The same with all numbers as tensors."""
    places = torch.arange(n, dtype=torch.float32)
    basis = torch.cos((places[None, :] + 0.5) * places[:, None] * math.pi / places.numel())
    return torch.cat([basis[:1] * 0.5**0.5, basis[1:]], 0)


def _fourier_matrix(x: torch.Tensor) -> Any:
    n = x.shape[1]
    angles = torch.outer(torch.arange(n), torch.arange(n)).float() * (2 * math.pi / n)
    return x @ angles.cos(), x @ angles.sin()


def _hartley(x: torch.Tensor) -> Any:
    n = x.shape[-1]
    places = torch.arange(n)
    angles = 2 * math.pi * (places[:, None] * places[None, :] % n).float() / n
    return x @ (angles.cos() + angles.sin())


def _haar(x: torch.Tensor) -> Any:
    """A step of a wavelet as a strided convolution, padded to an even length."""
    if x.shape[1] % 2:
        x = F.pad(x, (0, 1))
    kernel = torch.tensor([[[0.5, 0.5]], [[0.5, -0.5]]])
    return F.conv1d(x.unsqueeze(1), kernel, stride=2)


def _matrices() -> list[Entry]:
    return [
        one(MATRIX, "cosines", lambda x: x @ _cosine(x.shape[1]).t(), ROW, *ROWS),
        one(MATRIX, "cosines by tensors", lambda x: x @ _cosine_tensor(x.shape[1]).t(), ROW, *ROWS),
        one(MATRIX, "cosines of a map", lambda x: _cosine(x.shape[2]) @ x @ _cosine(x.shape[3]).t(), MAP, *MAPS),
        one(MATRIX, "Fourier", _fourier_matrix, ROW, *ROWS),
        one(MATRIX, "Hartley", _hartley, ROW, *ROWS),
        one(MATRIX, "first four cosines", lambda x: x @ _cosine(x.shape[1])[:4].t(), ROW, *ROWS),
        one(MATRIX, "Haar", _haar, ROW, (2, 12), (3, 6), (2, 9)),
        one(
            MATRIX,
            "cosines, strict",
            lambda x: x @ _cosine(x.shape[1]).t(),
            ROW,
            (3, 12),
            (4, 9),
            dynamic=strict(1, 0, 1),
        ),
    ]


def _by_hand(x: torch.Tensor) -> Any:
    places = torch.arange(x.shape[1], dtype=torch.float32)
    return x * (0.54 - 0.46 * torch.cos(2 * math.pi * places / (x.shape[1] - 1)))


def _windows() -> list[Entry]:
    return [
        one(WINDOW, "hann", lambda x: x * torch.hann_window(x.shape[1]), ROW, *ROWS),
        one(WINDOW, "hann, symmetric", lambda x: x * torch.hann_window(x.shape[1], periodic=False), ROW, *ROWS),
        one(WINDOW, "hamming", lambda x: x * torch.hamming_window(x.shape[1]), ROW, *ROWS),
        one(WINDOW, "blackman", lambda x: x * torch.blackman_window(x.shape[1]), ROW, *ROWS),
        one(WINDOW, "bartlett", lambda x: x * torch.bartlett_window(x.shape[1]), ROW, *ROWS),
        one(WINDOW, "hamming by hand", _by_hand, ROW, *ROWS),
        one(WINDOW, "hann, batch alone", lambda x: x * torch.hann_window(x.shape[1]), ROW, (3, 8), (5, 8)),
        one(
            WINDOW,
            "linspace fade",
            lambda x: x * torch.linspace(0, 1, x.shape[1] // 2 * 2)[: x.shape[1]].sqrt(),
            (2, 8),
            (2, 12),
            (3, 6),
        ),
    ]


def _stft(x: torch.Tensor) -> Any:
    return real(torch.stft(x, 8, 4, window=torch.hann_window(8), center=False, return_complex=True))


def _stft_centred(x: torch.Tensor) -> Any:
    return torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True).abs()


def _frames(x: torch.Tensor) -> Any:
    return x.unfold(-1, 8, 4) * torch.hann_window(8)


def _frames_spectrum(x: torch.Tensor) -> Any:
    return real(torch.fft.rfft(_frames(x)))


def _overlap_added(x: torch.Tensor) -> Any:
    """Frames added up again by fold."""
    frames = _frames(x).transpose(1, 2)
    n = (frames.shape[2] - 1) * 4 + 8
    return F.fold(frames, (1, n), (1, 8), stride=(1, 4)).flatten(1)


def _overlap_halves(x: torch.Tensor) -> Any:
    """The same by halves that are shifted by one."""
    frames = _frames(x)
    first, second = frames[..., :4].flatten(1), frames[..., 4:].flatten(1)
    return F.pad(first, (0, 4)) + F.pad(second, (4, 0))


def _preemphasis(x: torch.Tensor) -> Any:
    return torch.cat([x[:, :1], x[:, 1:] - 0.97 * x[:, :-1]], 1)


def _framed() -> list[Entry]:
    return [
        one(SOUND, "stft", _stft, WAVE, *WAVES),
        one(SOUND, "stft, centred", _stft_centred, WAVE, *WAVES),
        one(SOUND, "stft, batch alone", _stft, WAVE, (3, 40), (5, 40)),
        one(SOUND, "frames", _frames, WAVE, *WAVES),
        one(SOUND, "spectrum of frames", _frames_spectrum, WAVE, *WAVES),
        one(SOUND, "overlap and add by fold", _overlap_added, WAVE, *WAVES),
        one(SOUND, "overlap and add by halves", _overlap_halves, WAVE, *WAVES),
        one(SOUND, "pre-emphasis", _preemphasis, WAVE, *WAVES),
        one(SOUND, "mu law", _mu_law, WAVE, *WAVES),
        one(SOUND, "deltas", _deltas, LINE, *LINES),
    ]


def _mu_law(x: torch.Tensor) -> Any:
    x = x.tanh()
    return x.sign() * torch.log1p(255 * x.abs()) / math.log(256)


def _deltas(x: torch.Tensor) -> Any:
    """Slopes over five frames, the ends repeated."""
    kernel = torch.arange(-2, 3, dtype=x.dtype).view(1, 1, -1).repeat(x.shape[2], 1, 1)
    padded = F.pad(x.transpose(1, 2), (2, 2), mode="replicate")
    return (F.conv1d(padded, kernel, groups=x.shape[2]) / 10).transpose(1, 2)


class Mel(nn.Module):
    """A mel spectrogram: the transform as a strided convolution, filters, logarithm, normalized over time."""

    basis: torch.Tensor
    filters: torch.Tensor

    def __init__(self, padded: bool, normalized: bool) -> None:
        super().__init__()
        self.padded, self.normalized = padded, normalized
        angles = torch.outer(torch.arange(9), torch.arange(16)).float() * (2 * math.pi / 16)
        basis = torch.cat([angles.cos(), -angles.sin()]) * torch.hann_window(16)
        self.register_buffer("basis", basis.unsqueeze(1))
        self.register_buffer(
            "filters", (1 - (torch.arange(9.0)[None] - torch.arange(5.0)[:, None] * 2).abs() / 2).relu()
        )

    def forward(self, x: torch.Tensor) -> Any:
        x = x.unsqueeze(1)
        if self.padded:
            x = F.pad(x, (8, 8), mode="reflect")
        first, second = F.conv1d(x, self.basis, stride=4).chunk(2, 1)
        mel = (self.filters @ (first**2 + second**2)).clamp(min=1e-3).log()
        if self.normalized:
            mel = (mel - mel.mean(-1, keepdim=True)) / (mel.std(-1, keepdim=True) + 1e-3)
        return mel


class Whisper(Mel):
    """The last frame left out, what is far below the loudest clipped."""

    def forward(self, x: torch.Tensor) -> Any:
        mel = super().forward(x)[..., :-1]
        return (torch.maximum(mel, mel.amax((1, 2), keepdim=True) - 4.0) + 4.0) / 4.0


def _sounds() -> list[Entry]:
    return [
        module(SOUND, "mel spectrogram", lambda: Mel(False, False), WAVE, *WAVES),
        module(SOUND, "mel spectrogram, padded", lambda: Mel(True, False), WAVE, *WAVES),
        module(SOUND, "mel spectrogram, normalized", lambda: Mel(True, True), WAVE, *WAVES),
        module(SOUND, "mel spectrogram, batch of one", lambda: Mel(True, True), (1, 40), (2, 64), (3, 33)),
        module(SOUND, "mel spectrogram of Whisper", lambda: Whisper(True, False), WAVE, *WAVES),
        module(
            SOUND,
            "mel spectrogram, named",
            lambda: Mel(False, True),
            WAVE,
            (3, 64),
            (4, 52),
            dynamic=named(batch=0, samples=1),
        ),
    ]


class FNet(nn.Module):
    """FNet: the real part of a transform over features and steps instead of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        mixed = torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real
        return self.layer(self.norm(x + mixed))


class Operator(nn.Module):
    """A Fourier neural operator: the first 3 frequencies weighed, the others left out."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, 3, 2) / 4)

    def forward(self, x: torch.Tensor) -> Any:
        spectrum = torch.view_as_real(torch.fft.rfft(x.transpose(1, 2)))[:, :, :3]
        first, second = spectrum.unbind(-1)
        one, two = self.weight.unbind(-1)
        mixed_real = torch.einsum("bim,iom->bom", first, one) - torch.einsum("bim,iom->bom", second, two)
        mixed_imaginary = torch.einsum("bim,iom->bom", first, two) + torch.einsum("bim,iom->bom", second, one)
        n = x.shape[1]
        whole = F.pad(torch.stack([mixed_real, mixed_imaginary], -1), (0, 0, 0, n // 2 + 1 - 3))
        return torch.fft.irfft(torch.view_as_complex(whole), n=n)


class Squeezed(nn.Module):
    """FcaNet: channels weighed by one cosine over the map."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> Any:
        h, w = x.shape[-2:]
        rows = torch.cos(math.pi * (torch.arange(h) + 0.5) / h)
        columns = torch.cos(math.pi * (torch.arange(w) + 0.5) / w)
        squeezed = (x * rows[:, None] * columns).mean((2, 3))
        return x * self.layer(squeezed).sigmoid()[..., None, None]


def _spectral_pooling(x: torch.Tensor) -> Any:
    """Half the length by leaving out high frequencies."""
    n = x.shape[1] // 2
    spectrum = torch.fft.rfft(x)[:, : n // 2 + 1]
    return torch.fft.irfft(spectrum, n=n)


def _mixing() -> list[Entry]:
    return [
        module(MIXING, "FNet", FNet, LINE, *LINES),
        module(MIXING, "FNet, batch alone", FNet, LINE, (3, 8, 4), (5, 8, 4)),
        module(MIXING, "neural operator", Operator, LINE, *LINES),
        module(MIXING, "channels by a cosine", Squeezed, MAP, *MAPS),
        one(MIXING, "spectral pooling", _spectral_pooling, ROW, (2, 12), (3, 16)),
        two(
            MIXING,
            "convolution in frequencies",
            lambda x, y: torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(y), n=x.shape[1]),
            ((2, 8), (2, 8)),
            ((2, 12), (2, 12)),
            ((3, 9), (3, 9)),
        ),
    ]
