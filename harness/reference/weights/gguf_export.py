"""Writes a model as a GGUF file of architecture ``bailingmoe3``, which llama-server runs.

The attention twin has no export: llama.cpp 11434 stops on a ``bailingmoe3`` model that has no recurrent state. Needs
the package ``gguf`` (a development extra), imported when an export is asked for.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.reference.config import ModelConfig
from harness.reference.model.arrays import F32
from harness.reference.tokenizer import CONTROL_TOKENS, SPECIAL_TOKENS, Tokenizer
from harness.reference.weights.shipped import load

if TYPE_CHECKING:
    from gguf import GGUFWriter

_ARCH = "bailingmoe3"
_SIGMOID_GATING = 2
_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4

_TOP_NAMES = {
    "model.word_embeddings.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_LAYER_NAMES = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "attention.q_proj.weight": "attn_q.weight",
    "attention.k_proj.weight": "attn_k.weight",
    "attention.v_proj.weight": "attn_v.weight",
    "attention.q_conv1d.weight": "ssm_conv1d_q.weight",
    "attention.k_conv1d.weight": "ssm_conv1d_k.weight",
    "attention.v_conv1d.weight": "ssm_conv1d_v.weight",
    "attention.f_proj.weight": "ssm_f_a.weight",
    "attention.b_proj.weight": "ssm_beta.weight",
    "attention.A_log": "ssm_a",
    "attention.dt_bias": "ssm_dt.bias",
    "attention.o_norm.weight": "ssm_norm.weight",
    "attention.o_proj.weight": "attn_output.weight",
    "attention.q_a_proj.weight": "attn_q_a.weight",
    "attention.q_a_layernorm.weight": "attn_q_a_norm.weight",
    "attention.q_b_proj.weight": "attn_q_b.weight",
    "attention.kv_a_proj_with_mqa.weight": "attn_kv_a_mqa.weight",
    "attention.kv_a_layernorm.weight": "attn_kv_a_norm.weight",
    "attention.dense.weight": "attn_output.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "mlp.gate.weight": "ffn_gate_inp.weight",
    "mlp.gate.expert_bias": "exp_probs_b.bias",
    "mlp.shared_experts.gate_proj.weight": "ffn_gate_shexp.weight",
    "mlp.shared_experts.up_proj.weight": "ffn_up_shexp.weight",
    "mlp.shared_experts.down_proj.weight": "ffn_down_shexp.weight",
    "eh_proj.weight": "nextn.eh_proj.weight",
    "enorm.weight": "nextn.enorm.weight",
    "hnorm.weight": "nextn.hnorm.weight",
    "final_layernorm.weight": "layer_output_norm.weight",
}
_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")
_EXPERT = re.compile(r"mlp\.experts\.(\d+)\.(gate|up|down)_proj\.weight")


def export_gguf(path: Path, config: ModelConfig, weights: Mapping[str, F32], tokenizer: Tokenizer) -> None:
    """Writes the model in float32 with its tokenizer and chat template.

    Raises:
        KeyError: a weight has no place in the format.
    """
    from gguf import GGUFWriter

    writer = GGUFWriter(path, _ARCH)
    _add_sizes(writer, config)
    add_tokenizer(writer, tokenizer)
    for name, tensor in _tensors(config, weights):
        writer.add_tensor(name, np.ascontiguousarray(tensor, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_sizes(writer: GGUFWriter, c: ModelConfig) -> None:
    blocks = c.layers + c.mtp_layers
    counts = {
        "context_length": c.context_length,
        "embedding_length": c.hidden_size,
        "block_count": blocks,
        "feed_forward_length": c.dense_dim,
        "attention.head_count": c.heads,
        "attention.kv_lora_rank": c.kv_rank,
        "attention.key_length": c.latent_dim,
        "attention.key_length_mla": c.query_dim,
        "attention.value_length": c.kv_rank,
        "attention.value_length_mla": c.value_dim,
        "rope.dimension_count": c.rope_dim,
        "vocab_size": c.vocab_size,
        "ssm.conv_kernel": c.conv_kernel,
        "kda.head_dim": c.head_dim,
        "expert_count": c.experts,
        "expert_used_count": c.experts_per_token,
        "expert_group_count": c.expert_groups,
        "expert_group_used_count": c.groups_per_token,
        "expert_feed_forward_length": c.expert_dim,
        "expert_shared_feed_forward_length": c.expert_dim,
        "expert_shared_count": 1,
        "expert_gating_func": _SIGMOID_GATING,
        "leading_dense_block_count": c.dense_layers,
        "nextn_predict_layers": c.mtp_layers,
    }
    if c.query_rank is not None:
        counts["attention.q_lora_rank"] = c.query_rank
    for key, count in counts.items():
        writer.add_uint32(f"{_ARCH}.{key}", count)
    writer.add_array(f"{_ARCH}.attention.head_count_kv", [int(c.is_attention(layer)) for layer in range(blocks)])
    writer.add_float32(f"{_ARCH}.attention.layer_norm_rms_epsilon", c.norm_eps)
    writer.add_float32(f"{_ARCH}.rope.freq_base", c.rope_theta)
    writer.add_float32(f"{_ARCH}.kda.gate_lower_bound", c.gate_lower_bound)
    writer.add_float32(f"{_ARCH}.expert_weights_scale", c.routed_scale)
    writer.add_bool(f"{_ARCH}.kda.safe_gate", True)
    writer.add_bool(f"{_ARCH}.expert_weights_norm", True)


def add_tokenizer(writer: GGUFWriter, tokenizer: Tokenizer) -> None:
    """Writes the vocabulary, merges, special tokens and chat template."""
    tokens = tokenizer.vocabulary()
    types = [_NORMAL] * len(tokens)
    for token in SPECIAL_TOKENS:
        types[tokenizer.id_of(token)] = _CONTROL if token in CONTROL_TOKENS else _USER_DEFINED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(pair) for pair in json.loads(tokenizer.definition)["model"]["merges"]])
    writer.add_eos_token_id(tokenizer.id_of("<|im_end|>"))
    writer.add_pad_token_id(tokenizer.id_of("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(tokenizer.chat_template)


def _tensors(c: ModelConfig, weights: Mapping[str, F32]) -> Iterator[tuple[str, F32]]:
    """GGUF names and arrays; experts are stacked, the latent's up-projection is split into its key and value half."""
    for name, value in weights.items():
        match = _LAYER.fullmatch(name)
        if match is None:
            yield _TOP_NAMES[name], value
            continue
        layer, part = int(match[1]), match[2]
        if (expert := _EXPERT.fullmatch(part)) is not None:
            if expert[1] == "0":
                names = [f"model.layers.{layer}.mlp.experts.{e}.{expert[2]}_proj.weight" for e in range(c.experts)]
                yield f"blk.{layer}.ffn_{expert[2]}_exps.weight", np.stack([weights[each] for each in names])
        elif part == "attention.kv_b_proj.weight":
            up = value.reshape(c.heads, c.nope_dim + c.value_dim, c.kv_rank)
            yield f"blk.{layer}.attn_k_b.weight", up[:, : c.nope_dim].transpose(0, 2, 1)
            yield f"blk.{layer}.attn_v_b.weight", up[:, c.nope_dim :]
        elif part == "attention.g_proj.weight":
            yield f"blk.{layer}.{'attn_gate' if c.is_attention(layer) else 'ssm_g_a'}.weight", value
        else:
            yield f"blk.{layer}.{_LAYER_NAMES[part]}", _reshaped(part, value)


def _reshaped(part: str, value: F32) -> F32:
    """The tensors llama.cpp keeps in another form: convolutions in four dimensions, the decay rate as exp(A_log)."""
    if "conv1d" in part:
        return value.reshape(1, value.shape[0], 1, value.shape[-1])
    if part == "attention.A_log":
        rate: F32 = np.exp(value).reshape(-1, 1)
        return rate
    return value


def main() -> None:
    """Command line: ``python -m harness.reference.weights.gguf_export OUT.gguf``."""
    parser = argparse.ArgumentParser(description="Write the embedded model as a GGUF file for llama-server.")
    parser.add_argument("path", type=Path)
    options = parser.parse_args()
    config, weights = load("hybrid")
    export_gguf(options.path, config, weights, Tokenizer.load())


if __name__ == "__main__":
    main()
