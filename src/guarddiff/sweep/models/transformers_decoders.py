"""transformers' decoders from small configurations: whole sequences, and steps with a cache."""

from __future__ import annotations

import functools
from typing import Any

from torch import nn

from guarddiff.sweep.models.net import Input, Net, normal, points
from guarddiff.sweep.models.transformers_parts import (
    DECODER,
    SMALL,
    TEXT,
    VOCABULARY,
    Cached,
    build,
    ones,
    text,
    words,
)

_GPT2: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "n_positions": 64,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "use_cache": False,
}
_STEPS = points("n s past", (2, 3, 5), (1, 1, 9), (3, 4, 2), (2, 1, 12))
_EXPERTS: dict[str, Any] = {"num_local_experts": 4, "num_experts_per_tok": 2}


def nets() -> list[Net]:
    """All of them."""
    return [*_like_llama(), *_older(), *_state_spaces(), *_cached()]


def _like_llama() -> list[Net]:
    found = []
    for kind, more in (
        ("Llama", {}),
        ("Mistral", {"sliding_window": 6}),
        ("Qwen2", {}),
        ("Qwen3", {"head_dim": 8}),
        ("Gemma", {"head_dim": 8}),
        ("Gemma2", {"head_dim": 8, "sliding_window": 6}),
        ("Phi", {}),
        ("Phi3", {"sliding_window": 6}),
        ("StableLm", {}),
        ("Cohere", {}),
        ("Olmo2", {}),
        ("Granite", {}),
        ("SmolLM3", {}),
        ("Starcoder2", {}),
        ("Helium", {"head_dim": 8}),
        ("Mixtral", _EXPERTS),
        ("Qwen2Moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}),
        ("Olmoe", {"num_experts": 4, "num_experts_per_tok": 2}),
    ):
        given = {**DECODER, "bos_token_id": 1, "eos_token_id": 2, **more}
        name = f"{kind}ForCausalLM"
        found.append(text(kind.lower(), build(name, f"{kind}Config", **given), named=kind == "Llama"))
    found.append(text("gemma3", build("Gemma3ForCausalLM", "Gemma3TextConfig", **_gemma3())))
    scaled = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    stretched = build("LlamaForCausalLM", "LlamaConfig", **{**DECODER, "rope_parameters": scaled})
    found.append(text("llama.dynamic_rope", stretched, points=points("n s", (2, 8), (1, 13), (2, 80), (3, 20))))
    eager = build("LlamaForCausalLM", "LlamaConfig", **DECODER, attn_implementation="eager")
    found.append(text("llama.eager", eager))
    found.append(Net("llama.ids", build("LlamaModel", "LlamaConfig", **DECODER), (words(),), TEXT))
    return found


def _older() -> list[Net]:
    neo = {**SMALL, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 4}
    for name in ("num_hidden_layers", "num_attention_heads"):
        del neo[name]
    opt = {**SMALL, "ffn_dim": 40, "word_embed_proj_dim": 32, "pad_token_id": 1}
    bloom = {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4}
    mpt = {"vocab_size": VOCABULARY, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}
    falcon = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    ctrl = {"vocab_size": VOCABULARY, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "dff": 40}
    xglm = {"vocab_size": VOCABULARY, "d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 40}
    kept = {"use_cache": False}
    return [
        text("gpt2", build("GPT2LMHeadModel", "GPT2Config", **_GPT2)),
        text("gpt_neo", build("GPTNeoForCausalLM", "GPTNeoConfig", **neo, **kept)),
        text("gpt_neox", build("GPTNeoXForCausalLM", "GPTNeoXConfig", **SMALL, **kept)),
        text("gptj", build("GPTJForCausalLM", "GPTJConfig", **_GPT2, rotary_dim=4)),
        text("codegen", build("CodeGenForCausalLM", "CodeGenConfig", **_GPT2, rotary_dim=4)),
        text("gpt_bigcode", build("GPTBigCodeForCausalLM", "GPTBigCodeConfig", **_GPT2)),
        text("opt", build("OPTForCausalLM", "OPTConfig", **opt, **kept)),
        text("bloom", build("BloomForCausalLM", "BloomConfig", **bloom, **kept)),
        text("mpt", build("MptForCausalLM", "MptConfig", **mpt, **kept)),
        text("falcon", build("FalconForCausalLM", "FalconConfig", **falcon, **kept)),
        text("falcon.alibi", build("FalconForCausalLM", "FalconConfig", **falcon, **kept, alibi=True)),
        text("ctrl", build("CTRLModel", "CTRLConfig", **ctrl, **kept)),
        text("xglm", build("XGLMForCausalLM", "XGLMConfig", **xglm, **kept, max_position_embeddings=64)),
        text("biogpt", build("BioGptForCausalLM", "BioGptConfig", **SMALL, **kept)),
        Net("openai_gpt", build("OpenAIGPTModel", "OpenAIGPTConfig", **_openai()), (words(),), TEXT),
    ]


def _state_spaces() -> list[Net]:
    mamba = {**SMALL, "state_size": 4, "use_cache": False}
    mamba2 = {**mamba, "num_heads": 4, "head_dim": 16, "n_groups": 1, "chunk_size": 8}
    gemma = {**DECODER, "lru_width": 32, "attention_window_size": 6, "num_hidden_layers": 3, "head_dim": 8}
    return [
        Net("mamba", build("MambaForCausalLM", "MambaConfig", **mamba), (words(),), TEXT),
        Net("mamba2", build("Mamba2ForCausalLM", "Mamba2Config", **mamba2), (words(),), TEXT),
        text("recurrent_gemma", build("RecurrentGemmaForCausalLM", "RecurrentGemmaConfig", **gemma)),
    ]


def _cached() -> list[Net]:
    found = []
    for kind, given, heads in (
        ("Llama", DECODER, 2),
        ("Qwen2", DECODER, 2),
        ("Gemma", {**DECODER, "head_dim": 8}, 2),
        ("Phi3", {**DECODER, "bos_token_id": 1, "eos_token_id": 2}, 2),
        ("GPTNeoX", SMALL, 4),
        ("OPT", {**SMALL, "ffn_dim": 40, "word_embed_proj_dim": 32, "pad_token_id": 1}, 4),
    ):
        make = functools.partial(_steps, f"{kind}ForCausalLM", f"{kind}Config", given)
        found.append(Net(f"{kind.lower()}.cached", make, _step(heads), _STEPS, named=kind == "Qwen2"))
    gpt2 = functools.partial(_steps, "GPT2LMHeadModel", "GPT2Config", _GPT2)
    found.append(Net("gpt2.cached", gpt2, _step(4), _STEPS))
    return found


def _steps(model: str, config: str, given: dict[str, Any]) -> nn.Module:
    return Cached(build(model, config, **given)())


def _step(heads: int) -> tuple[Input, ...]:
    cache = tuple(
        Input(normal, ("n", heads, "past", 8), f"{part}{layer}") for layer in (0, 1) for part in ("key", "value")
    )
    return (words(), Input(ones, ("n", "past+s"), "attention_mask"), *cache)


def _gemma3() -> dict[str, Any]:
    return {**DECODER, "head_dim": 8, "sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}


def _openai() -> dict[str, Any]:
    given = dict(_GPT2)
    given.pop("use_cache")
    return given
