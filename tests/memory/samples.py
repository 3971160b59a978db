"""Models the tests share."""

from __future__ import annotations

from typing import Any

from harness.cli.memory import load_preset
from harness.memory.model import MemoryModel, read_model
from harness.memory.sequence import KvDtype, Setting, StateDtype
from harness.memory.shape import ModelShape

GIB = 1 << 30
MIB = 1 << 20
K32, K128, K256, M1 = 32_768, 131_072, 262_144, 1_048_576

FP32 = Setting()
BF16 = Setting(state_dtype=StateDtype.BF16)
FP8_CACHE = Setting(kv_dtype=KvDtype.FP8)


def model(preset: str) -> MemoryModel:
    """A shipped model."""
    found = load_preset(preset)
    return read_model(found.name, found.config)


def shape(preset: str) -> ModelShape:
    """A shipped model's layers."""
    return model(preset).shape


LING = shape("ling-3.1-flash")

# The fields of Qwen3.5-27B and Qwen3.8-27B that its cache depends on: 64 layers, 16 of them attending.
QWEN_27B: dict[str, Any] = {
    "model_type": "qwen3_5",
    "num_hidden_layers": 64,
    "full_attention_interval": 4,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "mamba_ssm_dtype": "float32",
}
QWEN_35B = QWEN_27B | {"num_hidden_layers": 40, "num_key_value_heads": 2, "linear_num_value_heads": 32}
NEMOTRON_30B: dict[str, Any] = {
    "model_type": "nemotron_h",
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    "hidden_size": 2688,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "ssm_state_size": 128,
    "n_groups": 8,
    "conv_kernel": 4,
}
# The tiny random-weight models whose servers' counters were recorded.
TINY_BAILING: dict[str, Any] = {
    "model_type": "bailing_hybrid",
    "num_hidden_layers": 6,
    "layer_group_size": 3,
    "num_attention_heads": 4,
    "head_dim": 128,
    "short_conv_kernel_size": 4,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "num_nextn_predict_layers": 1,
}
TINY_QWEN_NEXT: dict[str, Any] = {
    "model_type": "qwen3_next",
    "num_hidden_layers": 8,
    "full_attention_interval": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
