"""torchvision's segmentation, detection, video and optical flow."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

import torch
from torch import nn

from guarddiff.sweep.case import Shape
from guarddiff.sweep.models.net import Input, Net, images, picture, points

_SMALL = ((2, 64, 64), (1, 96, 96), (3, 64, 128), (2, 80, 112))
_FLOW = ((1, 128, 128), (2, 128, 192), (1, 160, 136))
_FEW: dict[str, int] = {"detections_per_img": 10}
_FEW_BOXES: dict[str, int] = {
    "box_detections_per_img": 10,
    "rpn_pre_nms_top_n_test": 50,
    "rpn_post_nms_top_n_test": 20,
    "min_size": 128,
    "max_size": 256,
}
_ONE_STAGE: dict[str, int] = {**_FEW, "topk_candidates": 30, "min_size": 128, "max_size": 256}

_SEGMENTATION = ("deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large")
_DETECTION: dict[str, dict[str, int]] = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": _FEW_BOXES,
    "fasterrcnn_mobilenet_v3_large_fpn": _FEW_BOXES,
    "fasterrcnn_resnet50_fpn": _FEW_BOXES,
    "fasterrcnn_resnet50_fpn_v2": _FEW_BOXES,
    "maskrcnn_resnet50_fpn": _FEW_BOXES,
    "keypointrcnn_resnet50_fpn": _FEW_BOXES,
    "retinanet_resnet50_fpn": _ONE_STAGE,
    "retinanet_resnet50_fpn_v2": _ONE_STAGE,
    "fcos_resnet50_fpn": _ONE_STAGE,
    "ssd300_vgg16": {**_FEW, "topk_candidates": 30},
    "ssdlite320_mobilenet_v3_large": {**_FEW, "topk_candidates": 30},
}
_GAINS = {"ssd300": 0.7, "ssdlite320": 0.7, "fcos": 4.0}
"""With these some boxes are found, and their scores are not all the same."""
_HEADS = ("retinanet_resnet50_fpn", "fcos_resnet50_fpn", "ssdlite320_mobilenet_v3_large")


def nets() -> list[Net]:
    """All of them."""
    found = [images(name, functools.partial(_segmentation, name), *_SMALL) for name in _SEGMENTATION]
    found.append(
        images("fcn_resnet50.auxiliary", functools.partial(_segmentation, "fcn_resnet50", aux_loss=True), *_SMALL)
    )
    for name, few in _DETECTION.items():
        found.append(
            Net(
                name,
                functools.partial(_detection, name, few),
                (Input(_photo, (3, "h", "w")),),
                _one_image(),
                gain=_GAINS.get(name.split("_")[0], 2.0),
            )
        )
    for name in _HEADS:
        found.append(images(f"{name}.head", functools.partial(_head, name), *_SMALL))
    for name in ("r3d_18", "mc3_18", "r2plus1d_18", "swin3d_t"):
        found.append(_clips(name, (1, 8, 32, 32), (2, 12, 48, 48), (1, 8, 32, 64)))
    found.append(_clips("s3d", (1, 16, 224, 224), (2, 16, 224, 224), (1, 16, 256, 224), (1, 24, 224, 256)))
    found.append(Net("mvit.three_blocks", _mvit, (Input(picture, ("n", 3, 4, 64, 64)),), points("n", (2,), (1,), (3,))))
    for name in ("raft_small", "raft_large"):
        frames = (Input(picture, ("n", 3, "h", "w")), Input(picture, ("n", 3, "h", "w")))
        found.append(Net(name, functools.partial(_flow, name), frames, points("n h w", *_FLOW)))
    return found


def _one_image() -> Any:
    return points("h w", (128, 128), (128, 160), (192, 128))


def _clips(name: str, *rows: tuple[int, ...]) -> Net:
    clip = Input(picture, ("n", 3, "t", "h", "w"))
    return Net(name, functools.partial(_video, name), (clip,), points("n t h w", *rows))


def _photo(shape: Shape) -> torch.Tensor:
    return picture(shape).sigmoid()


def _segmentation(name: str, **more: Any) -> nn.Module:
    models = import_module("torchvision.models.segmentation")
    made: nn.Module = getattr(models, name)(weights=None, weights_backbone=None, num_classes=5, **more)
    return made


def _detector(name: str, **more: Any) -> Any:
    models = import_module("torchvision.models.detection")
    return getattr(models, name)(weights=None, weights_backbone=None, num_classes=4, **more)


def _detection(name: str, few: dict[str, int]) -> nn.Module:
    return Detector(_detector(name, **few))


def _head(name: str) -> nn.Module:
    return Head(_detector(name))


def _video(name: str, **more: Any) -> nn.Module:
    made: nn.Module = getattr(import_module("torchvision.models.video"), name)(weights=None, num_classes=10, **more)
    return made


def _mvit() -> nn.Module:
    """torchvision's own are made for clips of 16 frames of 224 by 224 alone."""
    video = import_module("torchvision.models.video.mvit")
    kernel = [3, 3, 3]
    blocks = [
        video.MSBlockConfig(1, 96, 192, [], kernel, [], [1, 8, 8]),
        video.MSBlockConfig(2, 192, 192, kernel, kernel, [1, 2, 2], [1, 4, 4]),
        video.MSBlockConfig(2, 192, 192, [], kernel, [], [1, 4, 4]),
    ]
    made: nn.Module = video.MViT(
        (64, 64),
        4,
        blocks,
        residual_pool=False,
        residual_with_cls_embed=True,
        rel_pos_embed=False,
        proj_after_attn=False,
        num_classes=10,
    )
    return made


def _flow(name: str) -> nn.Module:
    return Flow(getattr(import_module("torchvision.models.optical_flow"), name)(weights=None))


class Detector(nn.Module):
    """A detection model of one image, as a function from a tensor to tensors."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        (found,) = self.model([image])
        return tuple(found.values())


class Head(nn.Module):
    """A detection model without what picks boxes in the end, as it is exported where that is written by hand."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.backbone = model.backbone
        self.head = model.head

    def forward(self, images: torch.Tensor) -> Any:
        return self.head(list(self.backbone(images).values()))


class Flow(nn.Module):
    """An optical flow model with few steps that gives the last step's flow."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        flows: list[torch.Tensor] = self.model(first, second, num_flow_updates=2)
        return flows[-1]
