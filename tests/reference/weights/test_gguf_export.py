from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.reference.config import preset
from harness.reference.tokenizer import Tokenizer
from harness.reference.weights.gguf_export import export_gguf
from harness.reference.weights.random_weights import random_weights
from harness.reference.weights.shipped import load

gguf = pytest.importorskip("gguf")


def test_every_weight_is_written_once_in_llama_cpps_form(tmp_path: Path) -> None:
    config, weights = load("hybrid")
    export_gguf(tmp_path / "m.gguf", config, weights, Tokenizer.load())
    reader = gguf.GGUFReader(tmp_path / "m.gguf")
    tensors = {tensor.name: tensor.data for tensor in reader.tensors}
    assert sum(data.size for data in tensors.values()) == sum(value.size for value in weights.values())
    assert np.allclose(tensors["blk.0.ssm_a"].ravel(), np.exp(weights["model.layers.0.attention.A_log"]).ravel())
    assert tensors["blk.1.ffn_up_exps.weight"].shape == (config.experts, config.expert_dim, config.hidden_size)
    up = weights["model.layers.5.attention.kv_b_proj.weight"].reshape(config.heads, -1, config.kv_rank)
    assert (tensors["blk.5.attn_k_b.weight"] == up[:, : config.nope_dim].transpose(0, 2, 1)).all()
    assert (tensors["blk.5.attn_v_b.weight"] == up[:, config.nope_dim :]).all()
    assert reader.fields["general.architecture"].contents() == "bailingmoe3"
    assert reader.fields["bailingmoe3.attention.head_count_kv"].contents() == [0, 0, 0, 0, 0, 1, 1]
    assert len(reader.fields["tokenizer.ggml.tokens"].contents()) == 512


def test_a_weight_without_a_place_is_refused(tmp_path: Path) -> None:
    config = preset("hybrid")
    weights = random_weights(config) | {"model.layers.0.attention.odd.weight": np.ones((2, 2), np.float32)}
    with pytest.raises(KeyError):
        export_gguf(tmp_path / "m.gguf", config, weights, Tokenizer.load())
