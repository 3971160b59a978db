"""Which reader a config goes to, by its `model_type`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.memory.families import bailing, deepseek, dense, kimi, mamba, mamba_parameters, qwen
from harness.memory.fields import Fields
from harness.memory.parameters import Component
from harness.memory.shape import ModelShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """read: the layers of a config of this family. count: its parameters. Both raise ConfigError."""

    read: Callable[[Fields, str], ModelShape]
    count: Callable[[Fields], tuple[Component, ...]]


BAILING = Family(read=bailing.read, count=bailing.count)
QWEN = Family(read=qwen.read, count=qwen.count)
DEEPSEEK = Family(read=deepseek.read, count=deepseek.count)
DENSE = Family(read=dense.read, count=dense.count)

FAMILIES: Mapping[str, Family] = {
    "bailing_hybrid": BAILING,
    "kimi_linear": Family(read=kimi.read, count=kimi.count),
    "qwen3_next": QWEN,
    "qwen3_5": QWEN,
    "qwen3_5_text": QWEN,
    "qwen3_5_moe": QWEN,
    "qwen3_5_moe_text": QWEN,
    "deepseek_v2": DEEPSEEK,
    "deepseek_v3": DEEPSEEK,
    "kimi_k2": DEEPSEEK,
    "llama": DENSE,
    "mistral": DENSE,
    "mixtral": DENSE,
    "qwen2": DENSE,
    "qwen3": DENSE,
    "qwen3_moe": DENSE,
    "gemma3_text": Family(read=dense.read_windowed, count=dense.count_gemma3),
    "gpt_oss": Family(read=dense.read_windowed, count=dense.count_gpt_oss),
    "nemotron_h": Family(read=mamba.read_nemotron, count=mamba_parameters.count_nemotron),
    "falcon_h1": Family(read=mamba.read_falcon, count=mamba_parameters.count_falcon),
    "granitemoehybrid": Family(read=mamba.read_granite, count=mamba_parameters.count_granite),
    "jamba": Family(read=mamba.read_jamba, count=mamba_parameters.count_jamba),
    "mamba2": Family(read=mamba.read_mamba2, count=mamba_parameters.count_mamba2),
}
