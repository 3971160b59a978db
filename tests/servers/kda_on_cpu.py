"""A plug-in of vLLM: Kimi Delta Attention in plain torch, because vLLM's own needs a GPU. Loaded by vLLM alone.

With it a tiny Ling (BailingMoeV3ForCausalLM) runs on a CPU. The rest is vLLM's own: its cache, its scheduler, its
drafts, its short convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

EPSILON = 1e-6
# States are kept as [heads, values, keys].
Rows = Sequence[int]


def gate(
    g: Tensor,
    A: Tensor,
    head_k_dim: int,
    g_bias: Tensor | None = None,
    beta: float = 1.0,
    threshold: float = 20.0,
    lower_bound: float | None = None,
) -> Tensor:
    """Log-decay of every channel: bounded below where a bound is given."""
    raw = g.float() if g_bias is None else g.float() + g_bias.float()
    raw = raw.view(*g.shape[:-1], A.numel(), head_k_dim)
    rate = A.float().reshape(A.numel(), 1).exp()
    if lower_bound is None:
        return -rate * torch.nn.functional.softplus(raw, beta, threshold)
    return lower_bound * torch.sigmoid(rate * raw)


def _unit(x: Tensor) -> Tensor:
    x = x.float()
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + EPSILON)


def _step(state: Tensor, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """The delta rule, one token: decay, write what k does not recall yet, read by q."""
    state = state * decay.unsqueeze(1)
    missing = beta.unsqueeze(-1) * (v - (state @ k.unsqueeze(-1)).squeeze(-1))
    state = state + missing.unsqueeze(-1) * k.unsqueeze(1)
    return state, (state @ q.unsqueeze(-1)).squeeze(-1)


def chunk_kda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Prefill: every sequence from its own state to its last one."""
    assert initial_state is not None and cu_seqlens is not None, "vLLM always gives both"
    out, last = torch.empty_like(v), initial_state.clone()
    queries, keys, decay = _unit(q[0]) * (scale or k.shape[-1] ** -0.5), _unit(k[0]), g[0].float().exp()
    bounds = cu_seqlens.tolist()
    for row, (begin, end) in enumerate(pairwise(bounds)):
        state = initial_state[row].float()
        for t in range(begin, end):
            state, read = _step(state, queries[t], keys[t], v[0, t].float(), decay[t], beta[0, t].float())
            out[0, t] = read.to(out.dtype)
        last[row] = state.to(last.dtype)
    return out, last


def fused_recurrent_kda_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    inplace_final_state: bool = True,
    cu_seqlens: Tensor | None = None,
    ssm_state_indices: Tensor | None = None,
    num_accepted_tokens: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Decoding: states live in slots. With drafts every token of a step has a slot, and the next step goes on from that
    of the last accepted one."""
    assert initial_state is not None and cu_seqlens is not None and ssm_state_indices is not None
    out = torch.empty_like(v)
    queries, keys, decay = _unit(q[0]) * (scale or k.shape[-1] ** -0.5), _unit(k[0]), g[0].float().exp()
    bounds, slots = cu_seqlens.tolist(), ssm_state_indices.tolist()
    accepted = None if num_accepted_tokens is None else num_accepted_tokens.tolist()
    for row, (begin, end) in enumerate(pairwise(bounds)):
        own: Rows = slots[row] if isinstance(slots[row], list) else [slots[row]] * (end - begin)
        if end == begin:
            continue
        state = initial_state[own[0 if accepted is None else accepted[row] - 1]].float()
        for t in range(begin, end):
            state, read = _step(state, queries[t], keys[t], v[0, t].float(), decay[t], beta[0, t].float())
            out[0, t] = read.to(out.dtype)
            initial_state[own[t - begin]] = state.to(initial_state.dtype)
    return out, initial_state


def register() -> None:
    """Put these in the place of vLLM's own, in every process of it."""
    from transformers import AutoConfig
    from vllm.platforms.cpu import CpuPlatform
    from vllm.third_party.flash_linear_attention.ops import kda
    from vllm.transformers_utils.configs.bailing_moe_v3_vl import BailingMoeV3TextConfig

    AutoConfig.register("bailing_hybrid", BailingMoeV3TextConfig, exist_ok=True)
    kda.fused_kda_gate = gate
    kda.chunk_kda = chunk_kda
    kda.fused_recurrent_kda = fused_recurrent_kda_fwd
    kda.fused_recurrent_kda_fwd = fused_recurrent_kda_fwd
    kda.FusedRMSNormGated.forward_cpu = kda.FusedRMSNormGated.forward_native
    # Without AMX the kernel of MLA takes blocks of 16, into which vLLM cuts the larger ones of a hybrid's cache; its
    # check of their size does not know that.
    CpuPlatform._check_aligned_block_size = classmethod(lambda *_: None)
