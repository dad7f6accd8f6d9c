"""timm's convolutional networks, the smallest of each family."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from torch import nn

from guarddiff.sweep.models.net import Net, images, squares

SMALL = ((2, 64, 64), (1, 96, 96), (3, 64, 128), (2, 80, 112))
GRID = ((2, 64, 64), (1, 96, 96), (3, 64, 128), (2, 160, 96))
MEDIUM = ((2, 96, 96), (1, 128, 128), (3, 96, 160), (2, 112, 144))
PHOTO = ((2, 224, 224), (1, 256, 256), (1, 320, 224))

_ANY_SIZE = (
    "mobileone_s1",
    "repvgg_a0",
    "gernet_s",
    "regnetz_b16",
    "gcresnext26ts",
    "eca_resnext26ts",
    "test_byobnet",
    "convnext_zepto_rms",
    "convnext_atto",
    "convnextv2_atto",
    "cs3darknet_s",
    "cs3darknet_focus_s",
    "darknet17",
    "cspnext_tiny",
    "densenet121",
    "densenetblur121d",
    "nf_regnet_b0",
    "test_nfnet",
    "dpn48b",
    "ese_vovnet19b_slim_dw",
    "resnet10t",
    "resnet18d",
    "resnetblur18",
    "ecaresnet26t",
    "seresnet18",
    "skresnet18",
    "resnest14d",
    "res2net50_14w_8s",
    "resnetv2_18",
    "resnetv2_50d_gn",
    "efficientnet_b0",
    "mobilenetv2_035",
    "mnasnet_small",
    "mixnet_s",
    "tinynet_e",
    "spnasnet_100",
    "fbnetc_100",
    "efficientnet_cc_b0_4e",
    "mobilenet_edgetpu_v2_xs",
    "test_efficientnet_evos",
    "test_efficientnet_gn",
    "fasternet_t0",
    "mobilenetv3_small_050",
    "lcnet_035",
    "mobilenetv4_conv_small_035",
    "fbnetv3_b",
    "ghostnet_050",
    "ghostnetv2_100",
    "ghostnetv3_050",
    "hardcorenas_a",
    "hgnetv2_b0",
    "inception_next_atto",
    "lcnetv2_small",
    "legacy_seresnet18",
    "mambaout_femto",
    "rdnet_tiny",
    "regnetx_002",
    "regnety_002",
    "regnetz_005",
    "repghostnet_050",
    "repvit_m0_9",
    "rexnet_100",
    "selecsls42",
    "starnet_s050",
    "tresnet_m",
    "xception41",
    "legacy_xception",
)
_IN_STEPS = ("hrnet_w18_small", "fastvit_t8", "dla46_c", "dla46x_c")
_MEDIUM_SIZE = ("inception_v3", "inception_v4")
_PADDED_BY_SIZE = ("tf_efficientnet_b0", "tf_efficientnetv2_b0", "tf_mixnet_s", "tf_mobilenetv3_small_075")
"""Every padding follows from the size: with height and width dynamic, the expressions of sizes grow with the depth
until an export takes many minutes."""
_NAMED = frozenset(("resnet10t", "mobilenetv3_small_050", "convnext_atto", "regnetx_002", "mixnet_s"))
_FEATURES = ("resnet10t", "mobilenetv3_small_050", "convnext_atto", "hrnet_w18_small", "efficientnet_b0")


def nets() -> list[Net]:
    """All of them."""
    found = [sized(name, SMALL, named=name in _NAMED) for name in _ANY_SIZE]
    found += [sized(name, GRID) for name in _IN_STEPS]
    found += [sized(name, MEDIUM) for name in _MEDIUM_SIZE]
    found += [fixed(name, 64) for name in _PADDED_BY_SIZE]
    found.append(sized("vgg11", PHOTO))
    for name in _FEATURES:
        found.append(images(f"{name}.features", functools.partial(make, name, features_only=True), *GRID))
    found.append(images("resnet10t.maps", functools.partial(make, "resnet10t", num_classes=0, global_pool=""), *SMALL))
    for pooling in ("catavgmax", "max"):
        pooled = functools.partial(make, "resnet10t", global_pool=pooling)
        found.append(images(f"resnet10t.{pooling}", pooled, *SMALL))
    stride = functools.partial(make, "resnet10t", output_stride=16)
    found.append(images("resnet10t.stride16", stride, *SMALL))
    return found


def make(name: str, **more: Any) -> nn.Module:
    """timm's model of this name with random weights."""
    made: nn.Module = import_module("timm").create_model(name, pretrained=False, **more)
    return made


def sized(name: str, rows: Sequence[Sequence[int]], *, named: bool = False, **more: Any) -> Net:
    """A model whose height and width are dynamic; ``more`` goes to timm."""
    return images(name, functools.partial(make, name, **more), *rows, named=named)


def fixed(name: str, side: int, **more: Any) -> Net:
    """A model of one size of images; ``more`` goes to timm."""
    return squares(name, functools.partial(make, name, **more), side)
