"""The arithmetic as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.memory.measured import Comparison
from harness.memory.node import NodeBudget, sessions
from harness.memory.sequence import (
    Setting,
    break_even_tokens,
    conv_bytes,
    kv_bytes_per_token,
    sequence_bytes,
    state_bytes,
)
from harness.memory.shape import ModelShape
from workloads.plan import Json


def model_document(
    shape: ModelShape, setting: Setting, contexts: Sequence[int], budget: NodeBudget | None
) -> dict[str, Json]:
    """One model, over all its ranks: bytes a token, states, every length, and sessions of a node (null without one).

    per_sequence.state_bytes holds everything that does not grow: recurrent and convolution state, and the further
    states that speculation and cached snapshots keep.
    """
    everywhere = replace(setting, tp=1)
    return {
        "name": shape.name,
        "kv_bytes_per_token": kv_bytes_per_token(shape, everywhere),
        "state_bytes_per_sequence": state_bytes(shape, everywhere),
        "conv_bytes_per_sequence": conv_bytes(shape, everywhere),
        "break_even_tokens": break_even_tokens(shape, everywhere),
        "per_sequence": [_length(shape, everywhere, context) for context in contexts],
        "node": None if budget is None else _node(shape, setting, contexts, budget),
    }


def _length(shape: ModelShape, setting: Setting, context_tokens: int) -> dict[str, Json]:
    bytes_of = sequence_bytes(shape, setting, context_tokens)
    return {
        "context_tokens": context_tokens,
        "kv_bytes": bytes_of.kv_bytes,
        "state_bytes": bytes_of.state_bytes,
        "total_bytes": bytes_of.total_bytes,
        "all_attention_bytes": bytes_of.all_attention_bytes,
    }


def _node(shape: ModelShape, setting: Setting, contexts: Sequence[int], budget: NodeBudget) -> dict[str, Json]:
    fits = [sessions(shape, setting, budget, context) for context in contexts]
    return {
        "free_bytes": budget.free_bytes,
        "sessions": [
            {
                "context_tokens": fit.context_tokens,
                "sessions_tp": fit.sessions_tp,
                "sessions_dp_attention": fit.sessions_dp_attention,
            }
            for fit in fits
        ],
    }


def measured_document(comparison: Comparison) -> dict[str, Json]:
    """The server's figures beside the computed ones."""
    return {
        "engine": comparison.reported.engine,
        "state_dtype_reported": comparison.reported.state_dtype,
        "state_dtypes_implied": [str(dtype) for dtype in comparison.implied_state_dtypes],
        "figures": [{"what": row.what, "reported": row.reported, "computed": row.computed} for row in comparison.rows],
    }
