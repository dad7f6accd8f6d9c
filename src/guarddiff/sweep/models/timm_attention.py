"""timm's networks with attention, token mixing or state spaces, the smallest of each family.

Where a network is a stack of equal blocks, a few of them stand for all.
"""

from __future__ import annotations

import functools
from typing import Any

from torch import nn

from guarddiff.sweep.models.net import Net, images, squares
from guarddiff.sweep.models.timm_convolutions import GRID, MEDIUM, SMALL, fixed, make, sized

_DYNAMIC: dict[str, Any] = {"img_size": 64, "dynamic_img_size": True}
_PATCHES14 = ((2, 56, 56), (1, 84, 84), (3, 56, 112), (2, 98, 70))
_PATCHES16 = ((2, 64, 64), (1, 96, 96), (3, 64, 128), (2, 112, 80))
_TWO_STAGES: dict[str, Any] = {
    "depths": (2, 2),
    "num_heads": (3, 6),
    "img_size": 64,
    "strict_img_size": False,
}
_NARROW: dict[str, Any] = {"depth": 2, "embed_dim": 64, "num_heads": 4}


def nets() -> list[Net]:
    """All of them."""
    return [*_plain(), *_dynamic(), *_windows(), *_hybrids(), *_mixers(), *_features()]


def _plain() -> list[Net]:
    """One size of images."""
    return [
        fixed("vit_tiny_patch16_224", 64, img_size=64, depth=4),
        fixed("deit_tiny_patch16_224", 64, img_size=64, depth=4),
        fixed("deit_tiny_distilled_patch16_224", 64, img_size=64, depth=4),
        fixed("deit3_small_patch16_224", 64, img_size=64, depth=2),
        fixed("beit_base_patch16_224", 64, img_size=64, **_NARROW),
        fixed("cait_xxs24_224", 64, img_size=64, depth=4),
        fixed("convit_tiny", 64, img_size=64, depth=4),
        fixed("crossvit_9_240", 240),
        fixed("pit_ti_224", 224),
        fixed("tnt_s_patch16_224", 64, img_size=64, depth=2),
        fixed("vit_relpos_small_patch16_224", 64, img_size=64, depth=2),
        fixed("vit_srelpos_small_patch16_224", 64, img_size=64, depth=2),
        fixed("volo_d1_224", 224),
        fixed("hiera_tiny_224", 224),
        fixed("efficientformer_l1", 224),
        fixed("efficientformerv2_s0", 224),
        fixed("tiny_vit_5m_224", 224),
        fixed("nest_tiny", 224),
        fixed("test_vit_relpos", 160),
        fixed("vit_base_patch16_siglip_224", 64, img_size=64, **_NARROW),
    ]


def _dynamic() -> list[Net]:
    """Position embeddings, or rotations, made for the size of the image."""
    vit = functools.partial(make, "vit_tiny_patch16_224", depth=4, **_DYNAMIC)
    padded = functools.partial(make, "vit_tiny_patch16_224", depth=2, dynamic_img_pad=True, **_DYNAMIC)
    flexible = functools.partial(make, "test_vit", dynamic_img_size=True)
    return [
        images("vit_tiny_patch16_224.dynamic", vit, *_PATCHES16),
        images("vit_tiny_patch16_224.dynamic_named", vit, *_PATCHES16, named=True),
        images("vit_tiny_patch16_224.padded", padded, *SMALL),
        images("test_vit.dynamic", flexible, *_PATCHES16),
        sized("test_vit2", _PATCHES16, dynamic_img_size=True),
        sized("test_vit3", _PATCHES16, dynamic_img_size=True),
        sized("test_vit4", _PATCHES16, dynamic_img_size=True),
        sized("deit3_base_patch16_224", _PATCHES16, **_NARROW, **_DYNAMIC),
        sized("vit_small_patch14_dinov2", _PATCHES14, depth=2, img_size=56, dynamic_img_size=True),
        sized("vit_small_patch14_reg4_dinov2", _PATCHES14, depth=2, img_size=56, dynamic_img_size=True),
        sized("eva02_tiny_patch14_224", _PATCHES14, depth=2, img_size=56, dynamic_img_size=True),
        sized("vit_tiny_patch16_dinov3_qkvb", _PATCHES16, depth=2),
        sized("vit_base_patch16_rope_224", _PATCHES16, **_NARROW, **_DYNAMIC),
        sized("vit_base_patch16_rope_mixed_224", _PATCHES16, **_NARROW, **_DYNAMIC),
        sized("vit_pe_core_tiny_patch16_384", _PATCHES16, depth=2, **_DYNAMIC),
        sized("flexivit_small", _PATCHES16, depth=2, **_DYNAMIC),
        sized("samvit_base_patch16_224", _PATCHES16, **_NARROW, img_size=64),
        sized("naflexvit_base_patch16_gap", _PATCHES16, **_NARROW),
        sized("naflexvit_base_patch16_map", _PATCHES16, **_NARROW),
        sized("xcit_nano_12_p16_224", _PATCHES16, depth=4),
        sized("vit_tiny_r_s16_p8_224", GRID, depth=2, **_DYNAMIC),
    ]


def _windows() -> list[Net]:
    return [
        sized("swin_tiny_patch4_window7_224", GRID, **_TWO_STAGES),
        squares("swin_tiny_patch4_window7_224.fixed", _swin, 112),
        sized("swinv2_tiny_window8_256", GRID, **_TWO_STAGES),
        sized("swinv2_cr_tiny_224", GRID, **_TWO_STAGES),
        sized("davit_tiny", SMALL, depths=(1, 1), embed_dims=(96, 192), num_heads=(3, 6)),
        sized("twins_pcpvt_small", GRID, depths=(1, 1, 1, 1)),
        sized("twins_svt_small", GRID, depths=(1, 1, 2, 1)),
        fixed("gcvit_xxtiny", 224),
        fixed("maxvit_pico_rw_256", 256),
        fixed("test_maxvit", 160),
        fixed("test_coatnet", 160),
        fixed("coatnet_pico_rw_224", 224),
        sized("sam2_hiera_tiny", GRID),
        sized("halonet26t", ((2, 256, 256), (1, 256, 512), (1, 512, 256))),
        sized("focalnet_tiny_srf", SMALL),
        fixed("mvitv2_tiny", 224),
    ]


def _swin() -> nn.Module:
    return make("swin_tiny_patch4_window7_224", img_size=112, depths=(2, 2, 2, 2))


def _hybrids() -> list[Net]:
    return [
        fixed("botnet26t_256", 256),
        sized("lambda_resnet26t", GRID),
        sized("edgenext_xx_small", GRID),
        sized("mobilevit_xxs", SMALL),
        sized("mobilevitv2_050", SMALL),
        sized("mobilenetv4_hybrid_medium_075", GRID),
        fixed("coat_lite_tiny", 64, img_size=64),
        sized("pvt_v2_b0", GRID),
        sized("pvt_v2_b2_li", GRID, depths=(1, 1, 1, 1)),
        sized("efficientvit_b0", GRID),
        fixed("efficientvit_m0", 224),
        sized("nextvit_small", GRID),
        fixed("visformer_tiny", 64, img_size=64),
        sized("shvit_s1", GRID),
        sized("iformer_t", GRID),
        sized("cpubone_nano", GRID),
        sized("lowformer_b0", GRID),
        sized("swiftformer_xs", GRID),
        sized("vitamin_small_224", GRID, img_size=64, dynamic_img_size=True),
        sized("csatv2", GRID),
    ]


def _mixers() -> list[Net]:
    return [
        fixed("gmlp_ti16_224", 64, img_size=64),
        fixed("gmixer_12_224", 64, img_size=64),
        fixed("resmlp_12_224", 64, img_size=64),
        fixed("mixer_s32_224", 64, img_size=64),
        sized("poolformer_s12", SMALL),
        sized("poolformerv2_s12", SMALL),
        sized("convformer_s18", SMALL),
        sized("caformer_s18", SMALL),
        sized("convmixer_768_32", MEDIUM),
        sized("sequencer2d_s", SMALL, layers=(1, 1, 1, 1)),
        sized("efficientvim_m1", GRID),
    ]


def _features() -> list[Net]:
    vit = functools.partial(make, "vit_tiny_patch16_224", depth=4, features_only=True, **_DYNAMIC)
    swin = functools.partial(make, "swin_tiny_patch4_window7_224", **_TWO_STAGES)
    return [
        images("vit_tiny_patch16_224.features", vit, *_PATCHES16),
        images("swin_tiny_patch4_window7_224.features", functools.partial(swin, features_only=True), *GRID),
    ]
