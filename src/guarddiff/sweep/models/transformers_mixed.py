"""transformers' models of text with pictures or sound, and of series, from small configurations."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from guarddiff.sweep.models.net import Input, Net, normal, picture, points
from guarddiff.sweep.models.transformers_parts import (
    SMALL,
    VOCABULARY,
    build,
    masked,
    ones,
    words,
)
from guarddiff.sweep.models.transformers_vision import Interpolated

_BODY: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
}
_EYES: dict[str, Any] = {**_BODY, "image_size": 32, "patch_size": 8}
_READS: dict[str, Any] = {**SMALL, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_BOTH = points("n s m", (2, 8, 3), (1, 13, 2), (3, 20, 5), (2, 5, 4))


def nets() -> list[Net]:
    """All of them."""
    return [*_pairs(), *_towers(), *_fused(), *_series()]


def _pairs() -> list[Net]:
    """Pictures and texts that are compared: n texts with m pictures."""
    return [
        _pair("clip", "CLIPModel", "CLIPConfig", projection_dim=16),
        _pair("siglip", "SiglipModel", "SiglipConfig"),
        _pair("chinese_clip", "ChineseCLIPModel", "ChineseCLIPConfig", projection_dim=16),
        _pair("groupvit", "GroupViTModel", "GroupViTConfig", projection_dim=16, projection_intermediate_dim=24),
        _pair("metaclip_2", "MetaClip2Model", "MetaClip2Config", projection_dim=16),
    ]


def _pair(name: str, model: str, config: str, **more: Any) -> Net:
    eyes = dict(_EYES)
    if name == "groupvit":
        eyes.update(depths=[1, 1], num_group_tokens=[4, 0], num_output_groups=[4, 2])
    inputs = (
        words(),
        Input(picture, ("m", 3, 32, 32), "pixel_values"),
        masked(),
    )
    make = functools.partial(_scores, model, config, {"text_config": _READS, "vision_config": eyes, **more})
    return Net(name, make, inputs, _BOTH)


def _scores(model: str, config: str, given: dict[str, Any]) -> nn.Module:
    return Compared(build(model, config, **given)())


class Compared(nn.Module):
    """What a model of pairs says of each picture and each text."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, pixel_values: Any, attention_mask: Any) -> Any:
        out = self.model(input_ids=input_ids, pixel_values=pixel_values, attention_mask=attention_mask)
        return out.logits_per_image, out.text_embeds, out.image_embeds


def _towers() -> list[Net]:
    rows = points("n s", (2, 8), (1, 13), (3, 20), (2, 5))
    pictures = (Input(picture, ("n", 3, "h", "w"), "pixel_values"),)
    sizes = points("n h w", (2, 32, 32), (1, 48, 48), (3, 32, 64), (2, 56, 40))
    return [
        Net("clip.text", build("CLIPTextModel", "CLIPTextConfig", **_READS), (words(), masked()), rows),
        Net("siglip.text", build("SiglipTextModel", "SiglipTextConfig", **_READS), (words(),), rows),
        Net("clip.vision", functools.partial(_interpolated, "CLIPVisionModel", "CLIPVisionConfig"), pictures, sizes),
        Net(
            "siglip.vision",
            functools.partial(_interpolated, "SiglipVisionModel", "SiglipVisionConfig"),
            pictures,
            sizes,
        ),
        Net("blip.vision", functools.partial(_interpolated, "BlipVisionModel", "BlipVisionConfig"), pictures, sizes),
    ]


def _interpolated(model: str, config: str) -> nn.Module:
    return Interpolated(build(model, config, **_EYES)())


def _fused() -> list[Net]:
    rows = points("n s", (2, 8), (1, 13), (3, 20), (2, 5))
    image = Input(picture, ("n", 3, 32, 32), "pixel_values")
    seen = Input(normal, ("n", "k", 16), "visual_feats")
    places = Input(normal, ("n", "k", 4), "visual_pos")
    many = points("n s k", (2, 8, 4), (1, 13, 6), (3, 20, 9), (2, 5, 3))
    clipseg = {"text_config": _READS, "vision_config": _EYES, "projection_dim": 16, "reduce_dim": 8}
    return [
        Net("lxmert", functools.partial(_lxmert), (words(), seen, places), many),
        Net(
            "visual_bert",
            build("VisualBertModel", "VisualBertConfig", **SMALL, visual_embedding_dim=16),
            (
                words(),
                masked(),
                Input(normal, ("n", "k", 16), "visual_embeds"),
                Input(ones, ("n", "k"), "visual_attention_mask"),
            ),
            many,
        ),
        Net(
            "git",
            build("GitModel", "GitConfig", **_READS, vision_config=_EYES, use_cache=False),
            (words(), masked(), image),
            rows,
        ),
        Net(
            "clipseg",
            functools.partial(_segments, {**clipseg, "extract_layers": [0, 1], "decoder_num_attention_heads": 2}),
            (words(), image, masked()),
            points("n s", (2, 8), (1, 13), (3, 20)),
        ),
        Net("blip.retrieval", functools.partial(_blip), (words(), image, masked()), rows),
    ]


def _lxmert() -> nn.Module:
    given = {**SMALL, "l_layers": 1, "x_layers": 1, "r_layers": 1, "visual_feat_dim": 16}
    del given["num_hidden_layers"]
    made = build("LxmertModel", "LxmertConfig", **given)()
    return Seen(made)


class Seen(nn.Module):
    """LXMERT's outputs of language and vision, as tensors."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, visual_feats: Any, visual_pos: Any) -> Any:
        out = self.model(input_ids=input_ids, visual_feats=visual_feats, visual_pos=visual_pos)
        return out.language_output, out.vision_output


class Named(nn.Module):
    """A model of words and pictures of which one output is taken."""

    def __init__(self, model: nn.Module, output: str) -> None:
        super().__init__()
        self.model = model
        self.output = output

    def forward(self, input_ids: Any, pixel_values: Any, attention_mask: Any) -> Any:
        out = self.model(input_ids=input_ids, pixel_values=pixel_values, attention_mask=attention_mask)
        return getattr(out, self.output)


def _segments(given: dict[str, Any]) -> nn.Module:
    return Named(build("CLIPSegForImageSegmentation", "CLIPSegConfig", **given)(), "logits")


def _blip() -> nn.Module:
    reads = {**_READS, "encoder_hidden_size": 32, "projection_dim": 16}
    given = {"text_config": reads, "vision_config": _EYES, "projection_dim": 16, "image_text_hidden_size": 16}
    return Named(build("BlipForImageTextRetrieval", "BlipConfig", **given)(), "itm_score")


def _series() -> list[Net]:
    series = (Input(normal, ("n", 32, 3), "past_values"),)
    rows = points("n", (2,), (1,), (3,))
    patch = {"num_input_channels": 3, "context_length": 32, "prediction_length": 8, "patch_length": 8, "d_model": 32}
    return [
        Net(
            "patchtst", build("PatchTSTForPrediction", "PatchTSTConfig", **patch, patch_stride=8, **_TST), series, rows
        ),
        Net(
            "patchtsmixer",
            build("PatchTSMixerForPrediction", "PatchTSMixerConfig", **patch, patch_stride=8),
            series,
            rows,
        ),
        Net(
            "decision_transformer",
            functools.partial(_decisions),
            _episode(),
            points("n s", (2, 6), (1, 9), (3, 12), (2, 4)),
        ),
        Net("vits.text_encoder", functools.partial(_vits), (words(),), points("n s", (2, 8), (1, 13), (3, 20))),
    ]


_TST: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 40}


def _decisions() -> nn.Module:
    given = {"state_dim": 5, "act_dim": 3, "hidden_size": 32, "n_layer": 2, "n_head": 4, "max_ep_len": 64}
    made = build("DecisionTransformerModel", "DecisionTransformerConfig", **given, n_positions=128)()
    return Decided(made)


class Decided(nn.Module):
    """A decision transformer's next states and actions."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, states: Any, actions: Any, returns: Any, timesteps: Any) -> Any:
        mask = torch.ones_like(timesteps)
        out = self.model(states, actions, None, returns, timesteps, mask)
        return out.state_preds, out.action_preds


def _episode() -> tuple[Input, ...]:
    return (
        Input(normal, ("n", "s", 5)),
        Input(normal, ("n", "s", 3)),
        Input(normal, ("n", "s", 1)),
        Input(_times, ("n", "s")),
    )


def _times(shape: Any) -> Any:
    return torch.arange(shape[-1]).expand(shape).contiguous()


def _vits() -> nn.Module:
    given = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    made: Any = build("VitsModel", "VitsConfig", **given, ffn_dim=40, flow_size=32)()
    return Encoded(made.text_encoder)


class Encoded(nn.Module):
    """The text encoder of VITS, of words that are all there."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Any) -> Any:
        there = torch.ones_like(input_ids).unsqueeze(-1).float()
        out = self.encoder(input_ids=input_ids, padding_mask=there)
        return out.last_hidden_state, out.prior_means
