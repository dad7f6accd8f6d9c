"""transformers' models of pictures and clips from small configurations."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from torch import nn

from guarddiff.sweep.models.net import Input, Net, picture, points
from guarddiff.sweep.models.transformers_parts import Taken, build, configuration

_BODY: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
}
_VIT: dict[str, Any] = {**_BODY, "image_size": 32, "patch_size": 8}
_FREE = ((2, 64, 64), (1, 96, 96), (3, 64, 128), (2, 80, 112))
_GRID = ((2, 64, 64), (1, 96, 96), (3, 64, 128), (2, 160, 96))
_PATCHES = ((2, 32, 32), (1, 48, 48), (3, 32, 64), (2, 56, 40))
_SWIN: dict[str, Any] = {"image_size": 64, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4]}


def nets() -> list[Net]:
    """All of them."""
    return [*_classic(), *_interpolating(), *_convolutions(), *_hierarchies(), *_dense(), *_clips()]


def _pixels(name: str, make: Any, *rows: Sequence[int], **more: Any) -> Net:
    return Net(name, make, (Input(picture, ("n", 3, "h", "w"), "pixel_values"),), points("n h w", *rows), **more)


def _square(name: str, make: Any, side: int) -> Net:
    pixels = (Input(picture, ("n", 3, side, side), "pixel_values"),)
    return Net(name, make, pixels, points("n", (2,), (1,), (3,), (5,)))


def _classic() -> list[Net]:
    return [
        _square("vit", build("ViTModel", "ViTConfig", **_VIT), 32),
        _square("vit.classify", build("ViTForImageClassification", "ViTConfig", **_VIT), 32),
        _square("deit", build("DeiTModel", "DeiTConfig", **_VIT), 32),
        _square("beit", build("BeitModel", "BeitConfig", **_VIT, use_relative_position_bias=True), 32),
        _square("data2vec_vision", build("Data2VecVisionModel", "Data2VecVisionConfig", **_VIT), 32),
        _square("levit", build("LevitModel", "LevitConfig", **_levit()), 64),
        _square("hiera", build("HieraModel", "HieraConfig", **_hiera()), 64),
    ]


def _interpolating() -> list[Net]:
    """Position embeddings that are resized to the picture, or rotations that are made for it."""
    dino = {**_VIT, "num_register_tokens": 2}
    return [
        _pixels("vit.interpolated", functools.partial(_interpolated, "ViTModel", "ViTConfig"), *_PATCHES),
        _pixels("deit.interpolated", functools.partial(_interpolated, "DeiTModel", "DeiTConfig"), *_PATCHES),
        _pixels("ijepa.interpolated", functools.partial(_interpolated, "IJepaModel", "IJepaConfig"), *_PATCHES),
        _pixels("dinov2", build("Dinov2Model", "Dinov2Config", **_VIT), *_PATCHES),
        _pixels("dinov2.named", build("Dinov2Model", "Dinov2Config", **_VIT), *_PATCHES, named=True),
        _pixels(
            "dinov2_with_registers",
            build("Dinov2WithRegistersModel", "Dinov2WithRegistersConfig", **dino),
            *_PATCHES,
        ),
        _pixels("dinov3_vit", build("DINOv3ViTModel", "DINOv3ViTConfig", **dino), *_PATCHES),
        _pixels("yolos", build("YolosModel", "YolosConfig", **{**_VIT, "image_size": [32, 32]}), *_PATCHES),
        _square("pvt", build("PvtModel", "PvtConfig", **_pvt()), 64),
    ]


def _convolutions() -> list[Net]:
    stages = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
    return [
        _pixels("resnet", build("ResNetModel", "ResNetConfig", **stages, embedding_size=8), *_FREE),
        _pixels("convnext", build("ConvNextModel", "ConvNextConfig", **stages), *_FREE),
        _pixels("convnextv2", build("ConvNextV2Model", "ConvNextV2Config", **stages), *_FREE),
        _pixels("regnet", build("RegNetModel", "RegNetConfig", **stages, embedding_size=8, groups_width=4), *_FREE),
        _pixels("bit", build("BitModel", "BitConfig", **stages, embedding_size=8, num_groups=4), *_FREE),
        _pixels(
            "mobilenet_v1",
            build("MobileNetV1Model", "MobileNetV1Config", depth_multiplier=0.25, tf_padding=False),
            *_FREE,
        ),
        _pixels(
            "mobilenet_v2",
            build("MobileNetV2Model", "MobileNetV2Config", depth_multiplier=0.25, tf_padding=False),
            *_FREE,
        ),
        _pixels("efficientnet", build("EfficientNetModel", "EfficientNetConfig", **_efficient()), *_FREE),
        _pixels("poolformer", build("PoolFormerModel", "PoolFormerConfig", **stages), *_FREE),
        _pixels("hgnet_v2", build("HGNetV2ForImageClassification", "HGNetV2Config"), *_FREE),
        _pixels("superpoint", functools.partial(_superpoint), *_GRID),
    ]


def _hierarchies() -> list[Net]:
    swift = {"image_size": 64, "depths": [1, 1, 1, 1], "embed_dims": [8, 16, 24, 32]}
    return [
        _pixels("swin", build("SwinModel", "SwinConfig", **_SWIN, window_size=4), *_GRID),
        _pixels("swinv2", build("Swinv2Model", "Swinv2Config", **_SWIN, window_size=4), *_GRID),
        _pixels("donut_swin", build("DonutSwinModel", "DonutSwinConfig", **_SWIN, window_size=4), *_GRID),
        _pixels("focalnet", build("FocalNetModel", "FocalNetConfig", **_focal()), *_GRID),
        _pixels("swiftformer", build("SwiftFormerModel", "SwiftFormerConfig", **swift), *_GRID),
        _pixels("cvt", build("CvtModel", "CvtConfig", **_cvt()), *_FREE),
        _pixels("pvt_v2", build("PvtV2Model", "PvtV2Config", **_pvt_v2()), *_GRID),
        _pixels("mobilevit", build("MobileViTModel", "MobileViTConfig", **_mobile()), *_FREE),
        _pixels("mobilevitv2", build("MobileViTV2Model", "MobileViTV2Config", **_mobile_v2()), *_FREE),
        _pixels("segformer", build("SegformerModel", "SegformerConfig", **_seg()), *_FREE),
    ]


def _dense() -> list[Net]:
    seg = build("SegformerForSemanticSegmentation", "SegformerConfig", **_seg())
    mobile = build("MobileViTForSemanticSegmentation", "MobileViTConfig", **_mobile())
    return [
        _pixels("segformer.segment", seg, *_FREE),
        _pixels("mobilevit.segment", mobile, *_FREE),
        _pixels("glpn", build("GLPNForDepthEstimation", "GLPNConfig", **_seg()), *_GRID),
        _pixels("upernet", functools.partial(_upernet), *_GRID),
        _pixels("depth_anything", functools.partial(_depth_anything), *_PATCHES),
        _pixels("swin2sr", build("Swin2SRForImageSuperResolution", "Swin2SRConfig", **_swin2sr()), *_PATCHES),
        _square("dpt", build("DPTForDepthEstimation", "DPTConfig", **_dpt()), 32),
        _pixels("detr", functools.partial(_detector, "DetrForObjectDetection", "DetrConfig"), *_GRID),
        _pixels("table_transformer", functools.partial(_detector, *_TABLE), *_GRID),
        _pixels("conditional_detr", functools.partial(_detector, *_CONDITIONAL), *_GRID),
        _pixels("rt_detr", functools.partial(_rt_detr), *_GRID),
        _square("sam_vision", build("SamVisionModel", "SamVisionConfig", **_sam()), 64),
    ]


def _clips() -> list[Net]:
    frames = (Input(picture, ("n", 4, 3, 32, 32), "pixel_values"),)
    rows = points("n", (2,), (1,), (3,))
    tubes = {**_VIT, "num_frames": 4, "tubelet_size": 2}
    return [
        Net("videomae", build("VideoMAEModel", "VideoMAEConfig", **tubes), frames, rows),
        Net("timesformer", build("TimesformerModel", "TimesformerConfig", **_VIT, num_frames=4), frames, rows),
        Net("vivit", build("VivitModel", "VivitConfig", **_VIT, num_frames=4, tubelet_size=[2, 8, 8]), frames, rows),
    ]


class Interpolated(nn.Module):
    """A model that is asked to resize its position embeddings."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Any) -> Any:
        return self.model(pixel_values=pixel_values, interpolate_pos_encoding=True).last_hidden_state


def _interpolated(model: str, config: str) -> nn.Module:
    return Interpolated(build(model, config, **_VIT)())


_TABLE = ("TableTransformerForObjectDetection", "TableTransformerConfig")
_CONDITIONAL = ("ConditionalDetrForObjectDetection", "ConditionalDetrConfig")


def _resnet(**more: Any) -> Any:
    return configuration("ResNetConfig", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], embedding_size=8, **more)


def _detector(model: str, config: str) -> nn.Module:
    given = {
        "use_timm_backbone": False,
        "backbone_config": _resnet(out_features=["stage4"]),
        "use_pretrained_backbone": False,
        "backbone": None,
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 40,
        "decoder_ffn_dim": 40,
        "num_queries": 5,
        "num_labels": 3,
    }
    return Taken(build(model, config, **given)(), ("logits", "pred_boxes"))


def _rt_detr() -> nn.Module:
    given = {
        "backbone_config": configuration(
            "RTDetrResNetConfig",
            embedding_size=8,
            hidden_sizes=[8, 16, 24, 32],
            depths=[1, 1, 1, 1],
            out_features=["stage2", "stage3", "stage4"],
        ),
        "encoder_hidden_dim": 32,
        "encoder_in_channels": [16, 24, 32],
        "feat_strides": [8, 16, 32],
        "encoder_ffn_dim": 40,
        "encoder_attention_heads": 4,
        "d_model": 32,
        "num_queries": 5,
        "decoder_in_channels": [32, 32, 32],
        "decoder_ffn_dim": 40,
        "decoder_layers": 1,
        "decoder_attention_heads": 4,
        "num_labels": 3,
    }
    return Taken(build("RTDetrForObjectDetection", "RTDetrConfig", **given)(), ("logits", "pred_boxes"))


def _superpoint() -> nn.Module:
    given = {"encoder_hidden_sizes": [8, 8, 16, 16], "decoder_hidden_size": 16, "descriptor_decoder_dim": 16}
    made = build("SuperPointForKeypointDetection", "SuperPointConfig", **given, keypoint_decoder_dim=65)()
    return Taken(made, ("keypoints", "scores", "descriptors"))


def _upernet() -> nn.Module:
    trunk = configuration(
        "ConvNextConfig",
        hidden_sizes=[8, 16, 24, 32],
        depths=[1, 1, 1, 1],
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    given = {"hidden_size": 16, "auxiliary_in_channels": 24, "auxiliary_channels": 8, "num_labels": 3}
    return build("UperNetForSemanticSegmentation", "UperNetConfig", backbone_config=trunk, **given)()


def _depth_anything() -> nn.Module:
    layers = ["stage1", "stage2"]
    trunk = configuration("Dinov2Config", **_VIT, out_features=layers, reshape_hidden_states=False)
    given = {
        "reassemble_factors": [2, 1],
        "neck_hidden_sizes": [16, 16],
        "reassemble_hidden_size": 32,
        "fusion_hidden_size": 16,
        "head_hidden_size": 8,
        "patch_size": 8,
    }
    return build("DepthAnythingForDepthEstimation", "DepthAnythingConfig", backbone_config=trunk, **given)()


def _dpt() -> dict[str, Any]:
    return {
        **_VIT,
        "num_hidden_layers": 4,
        "backbone_out_indices": [0, 1, 2, 3],
        "neck_hidden_sizes": [8, 8, 16, 16],
        "fusion_hidden_size": 16,
    }


def _seg() -> dict[str, Any]:
    return {
        "hidden_sizes": [8, 16, 24, 32],
        "depths": [1, 1, 1, 1],
        "num_attention_heads": [1, 2, 2, 4],
        "decoder_hidden_size": 16,
    }


def _pvt() -> dict[str, Any]:
    return {
        "image_size": 64,
        "hidden_sizes": [8, 16, 24, 32],
        "depths": [1, 1, 1, 1],
        "num_attention_heads": [1, 2, 2, 4],
    }


def _pvt_v2() -> dict[str, Any]:
    return {**_pvt(), "mlp_ratios": [2, 2, 2, 2]}


def _cvt() -> dict[str, Any]:
    return {"embed_dim": [16, 24, 32], "num_heads": [1, 2, 2], "depth": [1, 2, 3]}


def _focal() -> dict[str, Any]:
    return {"image_size": 64, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "focal_levels": [2, 2]}


def _mobile() -> dict[str, Any]:
    return {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 16, 16, 24, 32, 32, 64], "num_attention_heads": 4}


def _mobile_v2() -> dict[str, Any]:
    return {"width_multiplier": 0.25}


def _efficient() -> dict[str, Any]:
    return {"width_coefficient": 0.25, "depth_coefficient": 0.5, "hidden_dim": 320}


def _levit() -> dict[str, Any]:
    return {
        "image_size": 64,
        "hidden_sizes": [16, 24, 32],
        "num_attention_heads": [1, 2, 2],
        "depths": [1, 1, 1],
        "key_dim": [8, 8, 8],
    }


def _hiera() -> dict[str, Any]:
    return {"image_size": [64, 64], "embed_dim": 16, "depths": [1, 1, 2, 1], "num_heads": [1, 2, 4, 8]}


def _swin2sr() -> dict[str, Any]:
    return {"image_size": 32, "embed_dim": 16, "depths": [2], "num_heads": [2], "window_size": 4, "upscale": 2}


def _sam() -> dict[str, Any]:
    return {
        **_BODY,
        "image_size": 64,
        "patch_size": 8,
        "output_channels": 16,
        "window_size": 3,
        "global_attn_indexes": [1],
        "num_pos_feats": 8,
        "mlp_dim": 40,
    }
