"""A tiny Ling (BailingMoeV3ForCausalLM: KDA, gated MLA, experts, one draft layer) of random weights for vLLM on a CPU.

The widths of MLA are those that vLLM's CPU kernel was built for. The head likes one successor of each token, and the
draft layer sees the token before, so that some drafts are accepted and some are not.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

HIDDEN, HEADS, HEAD_DIM, LAYERS, GROUP = 128, 2, 32, 4, 2
LATENT, ROPE, NOPE, QUERY_RANK = 512, 64, 32, 64
EXPERTS, EXPERT_WIDTH = 8, 64
WIDTH = HEADS * HEAD_DIM
FLOATS = ("A_log", "dt_bias", "expert_bias", "conv1d", "mlp.gate.weight")


def config(vocabulary: int) -> dict[str, object]:
    """What config.json says."""
    return {
        "architectures": ["BailingMoeV3ForCausalLM"],
        "model_type": "bailing_hybrid",
        "vocab_size": vocabulary,
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "num_hidden_layers": LAYERS,
        "layer_group_size": GROUP,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "use_bias": False,
        "use_qkv_bias": False,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "max_position_embeddings": 16384,
        "rope_theta": 600000.0,
        "rope_interleave": True,
        "kv_lora_rank": LATENT,
        "q_lora_rank": QUERY_RANK,
        "qk_rope_head_dim": ROPE,
        "qk_nope_head_dim": NOPE,
        "v_head_dim": NOPE,
        "gated_attention_proj_granularity_type": "head_wise",
        "no_kda_lora": True,
        "kda_safe_gate": True,
        "kda_lower_bound": -5.0,
        "short_conv_kernel_size": 4,
        "num_experts": EXPERTS,
        "num_shared_experts": 1,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "moe_intermediate_size": EXPERT_WIDTH,
        "moe_shared_expert_intermediate_size": EXPERT_WIDTH,
        "moe_router_enable_expert_bias": True,
        "first_k_dense_replace": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "score_function": "sigmoid",
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "router_dtype": "fp32",
        "num_nextn_predict_layers": 1,
        "pad_token_id": 0,
        "eos_token_id": 2,
        "torch_dtype": "bfloat16",
    }


class Weights:
    """Tensors by name, drawn from one seed."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(1)
        self.tensors: dict[str, Tensor] = {}

    def drawn(self, *shape: int, scale: float = 1.0) -> Tensor:
        return torch.randn(*shape, generator=self.generator) * scale

    def matrix(self, name: str, rows: int, columns: int, scale: float = 1.0) -> None:
        self.tensors[f"{name}.weight"] = self.drawn(rows, columns, scale=scale * columns**-0.5)

    def norm(self, name: str, width: int) -> None:
        self.tensors[f"{name}.weight"] = torch.ones(width)

    def feed_forward(self, name: str, width: int, scale: float) -> None:
        self.matrix(f"{name}.gate_proj", width, HIDDEN)
        self.matrix(f"{name}.up_proj", width, HIDDEN)
        self.matrix(f"{name}.down_proj", HIDDEN, width, scale)

    def experts(self, name: str, scale: float) -> None:
        self.matrix(f"{name}.gate", EXPERTS, HIDDEN)
        self.tensors[f"{name}.gate.expert_bias"] = self.drawn(EXPERTS, scale=0.01)
        for expert in range(EXPERTS):
            self.feed_forward(f"{name}.experts.{expert}", EXPERT_WIDTH, scale)
        self.feed_forward(f"{name}.shared_experts", EXPERT_WIDTH, scale)

    def latent_attention(self, name: str, scale: float) -> None:
        self.matrix(f"{name}.q_a_proj", QUERY_RANK, HIDDEN)
        self.norm(f"{name}.q_a_layernorm", QUERY_RANK)
        self.matrix(f"{name}.q_b_proj", HEADS * (NOPE + ROPE), QUERY_RANK)
        self.matrix(f"{name}.kv_a_proj_with_mqa", LATENT + ROPE, HIDDEN)
        self.norm(f"{name}.kv_a_layernorm", LATENT)
        self.matrix(f"{name}.kv_b_proj", HEADS * 2 * NOPE, LATENT)
        self.matrix(f"{name}.g_proj", HEADS, HIDDEN)
        self.matrix(f"{name}.dense", HIDDEN, HEADS * NOPE, scale)

    def delta_attention(self, name: str, scale: float) -> None:
        for each in "qkv":
            self.matrix(f"{name}.{each}_proj", WIDTH, HIDDEN)
            self.tensors[f"{name}.{each}_conv1d.weight"] = self.drawn(WIDTH, 1, 4, scale=0.5)
        self.matrix(f"{name}.b_proj", HEADS, HIDDEN)
        self.matrix(f"{name}.f_proj", WIDTH, HIDDEN, 0.5)
        self.matrix(f"{name}.g_proj", WIDTH, HIDDEN)
        self.matrix(f"{name}.o_proj", HIDDEN, WIDTH, scale)
        self.norm(f"{name}.o_norm", HEAD_DIM)
        # Some channels forget within a few tokens, others within hundreds.
        self.tensors[f"{name}.dt_bias"] = self.drawn(WIDTH, scale=0.5) - 4.0
        self.tensors[f"{name}.A_log"] = self.drawn(HEADS, scale=0.3)


def ling(vocabulary: int) -> dict[str, Tensor]:
    """All tensors of the model."""
    made = Weights()
    for layer in range(LAYERS + 1):
        name, is_draft = f"model.layers.{layer}", layer == LAYERS
        scale = 0.3 if is_draft else 1.0
        made.norm(f"{name}.input_layernorm", HIDDEN)
        made.norm(f"{name}.post_attention_layernorm", HIDDEN)
        if is_draft or (layer + 1) % GROUP == 0:
            made.latent_attention(f"{name}.attention", scale)
        else:
            made.delta_attention(f"{name}.attention", scale)
        if layer == 0:
            made.feed_forward(f"{name}.mlp", 2 * HIDDEN, scale)
        else:
            made.experts(f"{name}.mlp", 0.5 * scale)
    _ends(made, vocabulary)
    kept = made.tensors.items()
    return {name: each if any(part in name for part in FLOATS) else each.bfloat16() for name, each in kept}


def _ends(made: Weights, vocabulary: int) -> None:
    """Embedding, head (the successor of a token looks like the token), and what leads into the draft layer."""
    embedding = made.drawn(vocabulary, HIDDEN)
    successor = torch.randperm(vocabulary, generator=made.generator)
    head = torch.empty(vocabulary, HIDDEN)
    head[successor] = embedding
    # The token itself is a small part of what the layers see, so that their states matter.
    made.tensors["model.word_embeddings.weight"] = embedding * 0.3
    made.tensors["lm_head.weight"] = head * 2.0 * HIDDEN**-0.5
    made.norm("model.norm", HIDDEN)
    name = f"model.layers.{LAYERS}"
    mixed = made.drawn(HIDDEN, HIDDEN, scale=0.2 * HIDDEN**-0.5)
    made.tensors[f"{name}.eh_proj.weight"] = torch.cat([torch.eye(HIDDEN), mixed], dim=1)
    for each in ("enorm", "hnorm", "final_layernorm"):
        made.norm(f"{name}.{each}", HIDDEN)


def write_ling(folder: Path, vocabulary: int) -> None:
    """The model's folder, but for the tokenizer."""
    (folder / "config.json").write_text(json.dumps(config(vocabulary), indent=1))
    save_file({name: each.contiguous() for name, each in ling(vocabulary).items()}, folder / "model.safetensors")
