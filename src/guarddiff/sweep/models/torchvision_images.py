"""torchvision's classifiers, and trunks that give pyramids of features."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from torch import nn

from guarddiff.sweep.models.net import Net, images, squares

_SMALL = ((2, 64, 64), (1, 96, 96), (3, 64, 128), (2, 80, 112))
_MEDIUM = ((2, 96, 96), (1, 128, 128), (3, 96, 160), (2, 112, 144))
_PHOTO = ((2, 224, 224), (1, 256, 256), (1, 320, 192), (3, 192, 224))

_ANY_SIZE = (
    "densenet121",
    "densenet169",
    "densenet201",
    "efficientnet_b0",
    "efficientnet_b1",
    "efficientnet_b2",
    "efficientnet_v2_s",
    "mnasnet0_5",
    "mnasnet0_75",
    "mnasnet1_0",
    "mnasnet1_3",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "mobilenet_v3_small",
    "regnet_x_400mf",
    "regnet_x_800mf",
    "regnet_x_1_6gf",
    "regnet_y_400mf",
    "regnet_y_800mf",
    "regnet_y_1_6gf",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnext50_32x4d",
    "wide_resnet50_2",
    "shufflenet_v2_x0_5",
    "shufflenet_v2_x1_0",
    "shufflenet_v2_x1_5",
    "shufflenet_v2_x2_0",
    "squeezenet1_0",
    "squeezenet1_1",
    "convnext_tiny",
)
_NAMED = frozenset(("resnet18", "mobilenet_v2", "efficientnet_b0", "densenet121", "vgg13"))
_NARROW_VGG = ("vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19")


def nets() -> list[Net]:
    """All of them."""
    found = [images(name, functools.partial(_make, name), *_SMALL, named=name in _NAMED) for name in _ANY_SIZE]
    for name in ("googlenet", "inception_v3"):
        make = functools.partial(_make, name, init_weights=False, aux_logits=True)
        found.append(images(name, make, *_MEDIUM))
    found.append(images("vgg11", functools.partial(_make, "vgg11", init_weights=False), *_PHOTO))
    found.append(images("alexnet", functools.partial(_make, "alexnet"), *_PHOTO))
    for name in _NARROW_VGG:
        rows = _PHOTO if name == "vgg16" else _MEDIUM
        found.append(images(name, functools.partial(_narrow_vgg, name), *rows, named=name in _NAMED))
    found += [
        squares("vit_b_16", functools.partial(_make, "vit_b_16", image_size=64), 64),
        squares("vit_b_32", functools.partial(_make, "vit_b_32", image_size=96), 96),
        squares("maxvit_t", functools.partial(_make, "maxvit_t", input_size=(224, 224)), 224),
        squares("swin_t", functools.partial(_make, "swin_t"), 64),
        squares("swin_v2_t", functools.partial(_make, "swin_v2_t"), 64),
        images("swin.two_stages", _two_stages, *_SMALL),
        images("resnet18_fpn_backbone", _pyramid, *_SMALL),
        images("mobilenet_v3_fpn_backbone", _mobile_pyramid, *_SMALL),
    ]
    return found


def _models() -> Any:
    return import_module("torchvision.models")


def _make(name: str, **more: Any) -> nn.Module:
    made: nn.Module = _models().get_model(name, weights=None, **more)
    return made


def _narrow_vgg(name: str) -> nn.Module:
    """A VGG with narrow last layers: those of the original hold nine tenths of its weights."""
    model: Any = _make(name, init_weights=False)
    model.classifier = nn.Sequential(nn.Linear(512 * 7 * 7, 128), nn.ReLU(True), nn.Dropout(), nn.Linear(128, 100))
    made: nn.Module = model
    return made


def _two_stages() -> nn.Module:
    """Swin with height and width dynamic: with four stages its expressions of sizes take many minutes to export."""
    more = {"embed_dim": 48, "depths": [2, 2], "num_heads": [3, 6], "window_size": [7, 7], "num_classes": 100}
    made: nn.Module = _models().SwinTransformer(patch_size=[4, 4], **more)
    return made


def _pyramid() -> nn.Module:
    trunks = import_module("torchvision.models.detection.backbone_utils")
    made: nn.Module = trunks.resnet_fpn_backbone(backbone_name="resnet18", weights=None)
    return made


def _mobile_pyramid() -> nn.Module:
    trunks = import_module("torchvision.models.detection.backbone_utils")
    made: nn.Module = trunks.mobilenet_backbone(backbone_name="mobilenet_v3_large", weights=None, fpn=True)
    return made
