"""Reading configs: each family's spelling, and what is refused rather than guessed."""

from __future__ import annotations

from typing import Any

import pytest

from harness.cli.memory import load_preset, preset_names
from harness.memory.families.registry import FAMILIES
from harness.memory.fields import ConfigError
from harness.memory.model import read_model
from harness.memory.sequence import all_attention_bytes, break_even_tokens, conv_bytes, kv_bytes, state_bytes
from tests.memory.samples import FP32, NEMOTRON_30B, QWEN_27B, TINY_BAILING, TINY_QWEN_NEXT, shape

GQA: dict[str, Any] = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8}


def layers(config: dict[str, Any]) -> dict[str, int]:
    return dict(read_model("m", config).shape.layers_by_kind())


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_reads_names_its_source_and_counts(preset: str) -> None:
    found = load_preset(preset)
    model = read_model(found.name, found.config)
    assert found.name == preset
    assert len(found.source) > 20
    assert model.parameters is not None, model.parameters_missing


def test_every_family_has_a_preset_or_a_close_relative() -> None:
    seen = {FAMILIES[str(load_preset(name).config["model_type"])].read for name in preset_names()}
    assert {family.read for family in FAMILIES.values()} - seen == set()


def test_a_trailing_partial_group_attends() -> None:
    assert layers(TINY_BAILING | {"num_hidden_layers": 14, "layer_group_size": 6}) == {"KDA": 10, "MLA": 4}


def test_bailing_without_a_short_convolution_is_lightning_attention() -> None:
    config = {key: value for key, value in TINY_BAILING.items() if key != "short_conv_kernel_size"}
    lightning = read_model("ling-2.6", config).shape
    assert lightning.layers_by_kind() == {"lightning": 4, "MLA": 2}
    assert state_bytes(lightning, FP32) == 4 * 4 * 128 * 128 * 4
    assert conv_bytes(lightning, FP32) == 0


def test_bailing_without_rotation_caches_the_latent_alone() -> None:
    plain = read_model("m", TINY_BAILING | {"use_mla_nope": True}).shape
    assert kv_bytes(plain, FP32, 1) == 2 * 512 * 2


def test_ling_2_6_flash_counts_to_104b() -> None:
    config = TINY_BAILING | {
        "short_conv_kernel_size": None, "num_hidden_layers": 32, "layer_group_size": 8, "num_attention_heads": 32,
        "hidden_size": 4096, "vocab_size": 157_184, "intermediate_size": 9216, "moe_intermediate_size": 1024,
        "num_experts": 256, "num_experts_per_tok": 8, "num_shared_experts": 1, "first_k_dense_replace": 1,
        "q_lora_rank": 1536, "qk_nope_head_dim": 128, "v_head_dim": 128,
    }  # fmt: skip
    count = read_model("ling-2.6-flash", config).parameters
    assert count is not None
    assert count.total() == pytest.approx(104e9, rel=0.01)
    assert count.active() == pytest.approx(7.4e9, rel=0.05)


def test_qwen_layers_come_from_the_list_or_the_interval() -> None:
    listed = {key: value for key, value in TINY_QWEN_NEXT.items() if key != "full_attention_interval"}
    listed["layer_types"] = (["linear_attention"] * 3 + ["full_attention"]) * 2
    assert layers(listed) == layers(TINY_QWEN_NEXT) == {"gated delta net": 6, "full attention": 2}


def test_the_text_model_inside_a_multimodal_config_is_read() -> None:
    nested = {"model_type": "qwen3_5_vision", "text_config": QWEN_27B}
    assert layers(nested) == {"gated delta net": 48, "full attention": 16}


def test_nemotron_reads_its_layers_as_letters_or_as_a_list() -> None:
    names = {"M": "mamba", "E": "moe", "*": "attention"}
    listed = {key: value for key, value in NEMOTRON_30B.items() if key != "hybrid_override_pattern"}
    listed["layers_block_type"] = [names[letter] for letter in NEMOTRON_30B["hybrid_override_pattern"]]
    assert layers(listed) == layers(NEMOTRON_30B) == {"Mamba-2": 23, "full attention": 6}


def test_falcon_has_both_parts_in_every_layer_and_nothing_to_replace() -> None:
    falcon = shape("falcon-h1-7b")
    assert falcon.layers_by_kind() == {"Mamba-2": 44, "full attention": 44}
    assert break_even_tokens(falcon, FP32) is None
    assert all_attention_bytes(falcon, FP32, 1_000) == kv_bytes(falcon, FP32, 1_000)


def test_granite_with_attention_alone_keeps_no_state() -> None:
    config = dict(load_preset("granite-4.0-h-small").config) | {"layer_types": ["attention"] * 40}
    assert layers(config) == {"full attention": 40}


def test_mamba2_alone_has_no_cache_and_no_comparison() -> None:
    mamba = shape("mamba2-780m")
    assert kv_bytes(mamba, FP32, 1_000_000) == 0
    assert all_attention_bytes(mamba, FP32, 1_000) is None
    assert break_even_tokens(mamba, FP32) is None


def test_windowed_layers_stop_growing_at_their_window() -> None:
    gemma = shape("gemma-3-27b")
    assert gemma.layers_by_kind() == {"sliding window": 52, "full attention": 10}
    per_layer = 2 * 16 * 128 * 2
    assert kv_bytes(gemma, FP32, 1_024) == 62 * per_layer * 1_024
    assert kv_bytes(gemma, FP32, 100_000) == (10 * 100_000 + 52 * 1_024) * per_layer
    assert break_even_tokens(gemma, FP32) == 1_024


def test_multi_head_attention_caches_every_head() -> None:
    assert kv_bytes(read_model("m", GQA).shape, FP32, 1) == 4 * 2 * 512 * 2


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "retnet", "num_hidden_layers": 4}, "model_type 'retnet' is not known"),
        ({"num_hidden_layers": 4}, "model_type None is not known"),
        ({"model_type": "bailing_hybrid"}, "no num_hidden_layers, layer_group_size, num_attention_heads, head_dim"),
        (TINY_BAILING | {"head_dim": "wide"}, "head_dim is 'wide', not a whole number"),
        (GQA | {"index_topk": 2048}, "index_topk, and a cache of that kind is not counted"),
        (GQA | {"sliding_window": 4096}, "does not say in which layers"),
        (TINY_QWEN_NEXT | {"layer_types": ["full_attention"]}, "layer_types names 1 layers"),
        (NEMOTRON_30B | {"hybrid_override_pattern": "M?M"}, "letters besides"),
        (NEMOTRON_30B | {"num_hidden_layers": 3}, "letters of pattern for 3 layers"),
        (dict(load_preset("kimi-linear-48b").config) | {"num_hidden_layers": 28}, "do not name each of 28 layers"),
        (dict(load_preset("granite-4.0-h-small").config) | {"layer_types": ["mamba"]}, "does not name each layer"),
        (dict(load_preset("gpt-oss-120b").config) | {"layer_types": None}, "no sliding_window_pattern"),
    ],
)
def test_what_cannot_be_read_is_said(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        read_model("model", config)
    assert said in str(refusal.value)
