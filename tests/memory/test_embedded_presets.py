"""The presets of the embedded engine say what the engine is."""

from __future__ import annotations

from typing import Literal

import pytest

from harness.cli.memory import load_preset
from harness.memory.model import read_model
from harness.memory.sequence import KvDtype, Setting, kv_bytes_per_token, snapshot_bytes
from harness.reference.config import preset
from harness.reference.weights.shipped import load

FLOAT_BYTES = 4


@pytest.mark.parametrize(("name", "arch"), [("ling-mini", "hybrid"), ("ling-mini-attention", "attention")])
def test_bytes_and_parameters_are_the_engines_own(name: str, arch: Literal["hybrid", "attention"]) -> None:
    model, config = read_model(name, load_preset(name).config), preset(arch)
    setting = Setting(kv_dtype=KvDtype.FP32)
    assert kv_bytes_per_token(model.shape, setting) == FLOAT_BYTES * config.mla_layers * config.latent_dim
    last_hidden_bytes = FLOAT_BYTES * config.hidden_size
    assert snapshot_bytes(model.shape, setting) == config.state_bytes - last_hidden_bytes
    assert model.parameters is not None
    assert sum(part.total for part in model.parameters.components) == sum(w.size for w in load(arch)[1].values())
