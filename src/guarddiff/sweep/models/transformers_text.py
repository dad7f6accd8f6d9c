"""transformers' encoders of text, and encoders with decoders, from small configurations."""

from __future__ import annotations

from typing import Any

from guarddiff.sweep.models.net import Input, Net, points
from guarddiff.sweep.models.transformers_parts import (
    SMALL,
    TEXT,
    VOCABULARY,
    boxes,
    build,
    masked,
    text,
    translation,
    types,
    words,
)

_GRID = points("n s", (2, 16), (1, 24), (3, 40), (2, 8))
_BATCHES = points("n", (2,), (1,), (3,))
_BART: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 64,
    "use_cache": False,
    "pad_token_id": 0,
    "decoder_start_token_id": 2,
    "eos_token_id": 2,
    "bos_token_id": 1,
}
_T5: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 40,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "use_cache": False,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
}


_LIKE_BERT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Bert", {}),
    ("Roberta", {}),
    ("Electra", {"embedding_size": 16}),
    ("Albert", {"embedding_size": 16}),
    ("MPNet", {}),
    ("Deberta", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    ("DebertaV2", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 16}),
    ("ConvBert", {"embedding_size": 16}),
    ("RoFormer", {"embedding_size": 16}),
    ("SqueezeBert", {"embedding_size": 32}),
    ("MobileBert", {"embedding_size": 32, "true_hidden_size": 32, "intra_bottleneck_size": 32}),
    ("IBert", {}),
    ("MegatronBert", {}),
    ("RemBert", {"input_embedding_size": 16, "output_embedding_size": 16}),
    ("ModernBert", {"pad_token_id": 0, "local_attention": 8, "global_attn_every_n_layers": 2}),
    ("Esm", {"pad_token_id": 0, "mask_token_id": 1, "position_embedding_type": "rotary"}),
    ("BigBird", {"attention_type": "original_full"}),
)


def nets() -> list[Net]:
    """All of them."""
    return [*_like_bert(), *_encoders(), *_with_decoder()]


def _like_bert() -> list[Net]:
    """Those whose configuration has BERT's words."""
    found = []
    for kind, more in _LIKE_BERT:
        found.append(text(kind.lower(), build(f"{kind}Model", f"{kind}Config", **{**SMALL, **more})))
    return found


def _encoders() -> list[Net]:
    bert = build("BertModel", "BertConfig", **SMALL)
    eager = build("BertModel", "BertConfig", **SMALL, attn_implementation="eager")
    inputs = (words(), masked(), Input(types, ("n", "s"), "token_type_ids"))
    distil = {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 40}
    xlm = {"vocab_size": VOCABULARY, "emb_dim": 32, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64}
    nystrom = {**SMALL, "num_landmarks": 4, "segment_means_seq_len": 16}
    longformer = {**SMALL, "attention_window": 4, "pad_token_id": 1}
    layout = build("LayoutLMModel", "LayoutLMConfig", **SMALL)
    return [
        Net("bert.types", bert, inputs, TEXT, named=True),
        text("bert.eager", eager),
        Net("bert.ids", bert, (words(),), TEXT),
        text("bert.classify", build("BertForSequenceClassification", "BertConfig", **SMALL, num_labels=3)),
        text("bert.answer", build("BertForQuestionAnswering", "BertConfig", **SMALL)),
        text("bert.fill", build("BertForMaskedLM", "BertConfig", **SMALL)),
        Net(
            "nystromformer",
            build("NystromformerModel", "NystromformerConfig", **nystrom),
            (words(axes=("n", 16)),),
            _BATCHES,
        ),
        text("distilbert", build("DistilBertModel", "DistilBertConfig", **distil)),
        text("xlm", build("XLMModel", "XLMConfig", **xlm)),
        text("flaubert", build("FlaubertModel", "FlaubertConfig", **xlm)),
        text("longformer", build("LongformerModel", "LongformerConfig", **longformer), points=_GRID),
        Net("fnet", build("FNetModel", "FNetConfig", **SMALL), (words(),), TEXT),
        text("funnel", build("FunnelModel", "FunnelConfig", **_funnel())),
        text("xlnet", build("XLNetModel", "XLNetConfig", **_xlnet())),
        Net(
            "layoutlm",
            layout,
            (words(), Input(boxes, ("n", "s", 4), "bbox"), masked()),
            TEXT,
        ),
        text("canine", build("CanineModel", "CanineConfig", **_canine()), points=_GRID),
        text("bigbird.sparse", build("BigBirdModel", "BigBirdConfig", **_sparse()), points=_blocks()),
        text("luke", build("LukeModel", "LukeConfig", **SMALL, entity_vocab_size=10, entity_emb_size=16)),
        text("splinter", build("SplinterModel", "SplinterConfig", **SMALL)),
        text("perceiver", _perceiver()),
        text("nomicbert", build("NomicBertModel", "NomicBertConfig", **SMALL)),
    ]


def _with_decoder() -> list[Net]:
    found = []
    for kind, more in (
        ("Bart", {}),
        ("MBart", {}),
        ("Pegasus", {}),
        ("Marian", {}),
        ("BlenderbotSmall", {}),
        ("M2M100", {}),
        ("LED", {"attention_window": 4, "max_encoder_position_embeddings": 64}),
        ("BigBirdPegasus", {"attention_type": "original_full"}),
    ):
        given = {**_BART, **more}
        if kind == "LED":
            given["max_decoder_position_embeddings"] = given.pop("max_position_embeddings")
        rows = points("n s t", (2, 8, 6), (1, 12, 4), (3, 20, 9), (2, 16, 12))
        found.append(translation(kind.lower(), build(f"{kind}Model", f"{kind}Config", **given), points=rows))
    for kind, special in (
        ("T5", {"feed_forward_proj": "gated-gelu"}),
        ("UMT5", {}),
        ("LongT5", {"local_radius": 3, "encoder_attention_type": "local"}),
        ("SwitchTransformers", {"num_experts": 2, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1}),
    ):
        found.append(translation(kind.lower(), build(f"{kind}Model", f"{kind}Config", **{**_T5, **special})))
    found.append(translation("longt5.global", build("LongT5Model", "LongT5Config", **_T5, local_radius=3, **_GLOBAL)))
    found.append(translation("t5.generate", build("T5ForConditionalGeneration", "T5Config", **_T5), named=True))
    found.append(text("t5.encoder", build("T5EncoderModel", "T5Config", **_T5)))
    prophet = {**_BART, "hidden_size": 32, "ngram": 2, "num_encoder_layers": 2, "num_decoder_layers": 2}
    for name in ("d_model", "encoder_layers", "decoder_layers"):
        del prophet[name]
    more = {"num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4}
    found.append(translation("prophetnet", build("ProphetNetModel", "ProphetNetConfig", **prophet, **more)))
    return found


_GLOBAL: dict[str, Any] = {"encoder_attention_type": "transient-global", "global_block_size": 4}


def _funnel() -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "block_sizes": [1, 1],
        "num_decoder_layers": 1,
        "d_model": 32,
        "n_head": 4,
        "d_head": 8,
        "d_inner": 40,
        "max_position_embeddings": 64,
    }


def _xlnet() -> dict[str, Any]:
    return {"vocab_size": VOCABULARY, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 40, "mem_len": None}


def _canine() -> dict[str, Any]:
    given = {**SMALL, "num_hash_buckets": 64, "local_transformer_stride": 8}
    given.pop("vocab_size")
    return given


def _sparse() -> dict[str, Any]:
    return {**SMALL, "attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 1}


def _blocks() -> Any:
    return points("n s", (2, 48), (1, 52), (3, 64), (2, 56))


def _perceiver() -> Any:
    given = {
        "vocab_size": VOCABULARY,
        "d_model": 32,
        "d_latents": 32,
        "num_latents": 8,
        "num_blocks": 1,
        "num_self_attends_per_block": 2,
        "num_self_attention_heads": 4,
        "num_cross_attention_heads": 4,
        "max_position_embeddings": 64,
        "qk_channels": 32,
        "v_channels": 32,
    }
    return build("PerceiverForSequenceClassification", "PerceiverConfig", **given)
