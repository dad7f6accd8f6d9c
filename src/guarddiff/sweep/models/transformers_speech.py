"""transformers' models of sound from small configurations: samples, or frames of a spectrum."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from guarddiff.sweep.case import Shape
from guarddiff.sweep.models.net import Input, Net, normal, points
from guarddiff.sweep.models.transformers_parts import build, mask, tokens

_WAVES = points("n s", (2, 1200), (1, 1600), (3, 2005), (2, 2400))
_FRAMES = points("n s", (2, 40), (1, 64), (3, 81), (2, 100))
_WAV2VEC2: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "conv_dim": [16, 16, 16],
    "conv_stride": [4, 4, 2],
    "conv_kernel": [8, 8, 4],
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "vocab_size": 30,
    "mask_time_prob": 0.0,
    "apply_spec_augment": False,
    "layerdrop": 0.0,
}
_WHISPER: dict[str, Any] = {
    "vocab_size": 60,
    "num_mel_bins": 16,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "max_source_positions": 50,
    "max_target_positions": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "use_cache": False,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}


def nets() -> list[Net]:
    """All of them."""
    return [*_waves(), *_frames(), *_codecs(), *_generators()]


def sound(shape: Shape) -> torch.Tensor:
    """Noise on a few slow waves."""
    time = torch.arange(shape[-1]) / 50
    return torch.sin(time * torch.rand((*shape[:-1], 1)) * 6) + 0.3 * torch.randn(shape)


def _wave(name: str, make: Any, **more: Any) -> Net:
    return Net(name, make, (Input(sound, ("n", "s"), "input_values"),), _WAVES, **more)


def _waves() -> list[Net]:
    found = []
    for kind, model, more in (
        ("Wav2Vec2", "Model", {}),
        ("Wav2Vec2", "ForCTC", {"feat_extract_norm": "layer", "do_stable_layer_norm": True}),
        ("Hubert", "Model", {}),
        ("WavLM", "Model", {"num_buckets": 16, "max_bucket_distance": 40}),
        ("UniSpeech", "Model", {"num_ctc_classes": 30}),
        ("UniSpeechSat", "Model", {}),
        ("Data2VecAudio", "Model", {"num_conv_pos_embeddings": 2, "conv_pos_kernel_size": 5}),
        ("SEW", "Model", {"squeeze_factor": 2}),
        ("SEWD", "Model", {"squeeze_factor": 2, "max_position_embeddings": 64, "position_buckets": 16}),
        ("Wav2Vec2Conformer", "Model", {"position_embeddings_type": "relative", "max_source_positions": 200}),
        ("Wav2Vec2", "ForSequenceClassification", {}),
    ):
        given = {**_WAV2VEC2, **more}
        if kind == "Data2VecAudio":
            del given["num_conv_pos_embedding_groups"]
            given["num_conv_pos_embedding_groups"] = 4
        name = kind.lower() + {"Model": "", "ForCTC": ".ctc", "ForSequenceClassification": ".classify"}[model]
        found.append(_wave(name, build(kind + model, f"{kind}Config", **given), named=name == "hubert"))
    both = (Input(sound, ("n", "s"), "input_values"), Input(mask, ("n", "s"), "attention_mask"))
    given = {**_WAV2VEC2, "feat_extract_norm": "layer", "do_stable_layer_norm": True}
    found.append(Net("wav2vec2.masked", build("Wav2Vec2Model", "Wav2Vec2Config", **given), both, _WAVES))
    rotary = {**_WAV2VEC2, "position_embeddings_type": "rotary"}
    found.append(
        _wave("wav2vec2conformer.rotary", build("Wav2Vec2ConformerModel", "Wav2Vec2ConformerConfig", **rotary))
    )
    return found


def _frames() -> list[Net]:
    bert = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 40,
        "feature_projection_input_dim": 16,
        "conv_depthwise_kernel_size": 5,
        "position_embeddings_type": "relative_key",
        "mask_time_prob": 0.0,
        "apply_spec_augment": False,
        "add_adapter": False,
    }
    spectrum = Input(normal, ("n", "s", 16), "input_features")
    ast = {**_transformer(), "patch_size": 8, "frequency_stride": 4, "time_stride": 4, "num_mel_bins": 16}
    mel = Input(normal, ("n", 16, 100), "input_features")
    spoken = Input(tokens_of(60), ("n", "t"), "decoder_input_ids")
    rows = points("n t", (2, 6), (1, 4), (3, 9), (2, 12))
    speech = {**_WHISPER, "input_feat_per_channel": 16, "max_source_positions": 80, "num_conv_layers": 2}
    speech.pop("suppress_tokens")
    speech.pop("begin_suppress_tokens")
    s2t = build("Speech2TextModel", "Speech2TextConfig", **speech, conv_channels=32)
    return [
        Net("wav2vec2bert", build("Wav2Vec2BertModel", "Wav2Vec2BertConfig", **bert), (spectrum,), _FRAMES),
        Net(
            "audio_spectrogram_transformer",
            build("ASTModel", "ASTConfig", **ast, max_length=40),
            (Input(normal, ("n", 40, 16), "input_values"),),
            points("n", (2,), (1,), (3,)),
        ),
        Net("whisper", build("WhisperModel", "WhisperConfig", **_WHISPER), (mel, spoken), rows),
        Net(
            "whisper.generate",
            build("WhisperForConditionalGeneration", "WhisperConfig", **_WHISPER),
            (mel, spoken),
            rows,
        ),
        Net(
            "whisper.encoder",
            build("WhisperForAudioClassification", "WhisperConfig", **_WHISPER, num_labels=3),
            (mel,),
            points("n", (2,), (1,), (3,)),
        ),
        Net("speech_to_text", s2t, (spectrum, spoken), points("n s t", (2, 40, 6), (1, 64, 4), (3, 81, 9))),
        Net("parakeet_encoder", build("ParakeetEncoder", "ParakeetEncoderConfig", **_parakeet()), (spectrum,), _FRAMES),
        Net(
            "moonshine",
            build("MoonshineModel", "MoonshineConfig", **_moonshine()),
            (Input(sound, ("n", "s"), "input_values"), spoken),
            points("n s t", (2, 1600, 6), (1, 2400, 4), (3, 3205, 9)),
        ),
    ]


def _codecs() -> list[Net]:
    wave = (Input(sound, ("n", 1, "s"), "input_values"),)
    rows = points("n s", (2, 640), (1, 1280), (3, 960))
    encodec = {
        "num_filters": 4,
        "hidden_size": 16,
        "codebook_size": 16,
        "codebook_dim": 16,
        "upsampling_ratios": [4, 2],
        "num_lstm_layers": 1,
        "target_bandwidths": [12.0],
    }
    dac = {"encoder_hidden_size": 8, "downsampling_ratios": [4, 2], "decoder_hidden_size": 16, "codebook_size": 16}
    return [
        Net("encodec", functools.partial(_unquantized, "EncodecModel", "EncodecConfig", encodec), wave, rows),
        Net("dac", functools.partial(_unquantized, "DacModel", "DacConfig", dac), wave, rows, gain=0.5),
    ]


class Unquantized(nn.Module):
    """A codec without its code book: which code is nearest changes with the last digit."""

    def __init__(self, codec: Any) -> None:
        super().__init__()
        self.encoder = codec.encoder
        self.decoder = codec.decoder

    def forward(self, input_values: torch.Tensor) -> Any:
        return self.decoder(self.encoder(input_values))


def _unquantized(model: str, config: str, given: dict[str, Any]) -> nn.Module:
    return Unquantized(build(model, config, **given)())


def _generators() -> list[Net]:
    hifi = {"model_in_dim": 16, "upsample_initial_channel": 32, "resblock_kernel_sizes": [3], "normalize_before": False}
    dilated = {"resblock_dilation_sizes": [[1, 3]], "upsample_rates": [4, 4], "upsample_kernel_sizes": [8, 8]}
    spectrum = (Input(normal, ("n", "s", 16), "spectrogram"),)
    return [
        Net("hifigan", build("SpeechT5HifiGan", "SpeechT5HifiGanConfig", **hifi, **dilated), spectrum, _FRAMES),
    ]


def tokens_of(vocabulary: int) -> Any:
    """Makes words of a vocabulary of this size."""
    return lambda shape: tokens(shape, high=vocabulary)


def _transformer() -> dict[str, Any]:
    return {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}


def _parakeet() -> dict[str, Any]:
    return {
        **_transformer(),
        "conv_kernel_size": 5,
        "subsampling_factor": 4,
        "subsampling_conv_channels": 8,
        "num_mel_bins": 16,
        "max_position_embeddings": 200,
        "dropout": 0.0,
    }


def _moonshine() -> dict[str, Any]:
    return {
        "vocab_size": 60,
        "hidden_size": 32,
        "intermediate_size": 40,
        "encoder_num_hidden_layers": 2,
        "decoder_num_hidden_layers": 2,
        "encoder_num_attention_heads": 4,
        "decoder_num_attention_heads": 4,
        "max_position_embeddings": 64,
        "use_cache": False,
        "pad_token_id": 0,
    }
