"""Feed-forward layers: a dense SwiGLU, and a mixture of experts with sigmoid routing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from harness.reference.config import ModelConfig
from harness.reference.model.arithmetic import Arithmetic
from harness.reference.model.arrays import F32, I64
from harness.reference.model.numerics import rms_norm, sigmoid, silu

_DENSE_UP_TO_ROWS = 48
"""Up to this many rows one product over all experts beats sorting the rows by expert."""
_WEIGHT_SUM_MIN = np.float32(6.103515625e-5)


class DenseFeedForward:
    """``down(silu(gate x) * up x)`` with its norm."""

    def __init__(self, config: ModelConfig, weights: Mapping[str, F32], prefix: str, arithmetic: Arithmetic) -> None:
        self._eps, self._arithmetic = config.norm_eps, arithmetic
        norm = weights[prefix + "post_attention_layernorm.weight"]
        gate, up, down = _swiglu(weights, prefix + "mlp.")
        self._w_in: F32 = np.ascontiguousarray((np.concatenate([gate, up]) * norm).T)
        self._w_out: F32 = np.ascontiguousarray(down.T)

    def apply(self, x: F32) -> F32:
        """Output of ``x`` ``[rows, hidden]``."""
        y = self._arithmetic.project(rms_norm(x, self._eps), self._w_in)
        half = y.shape[1] // 2
        return self._arithmetic.project(silu(y[:, :half]) * y[:, half:], self._w_out)


class Router:
    """Expert choice of BailingMoeV3: sigmoid scores, a bias for the choice alone, groups, scaled weights."""

    def __init__(self, config: ModelConfig, bias: F32) -> None:
        self._config, self._bias = config, bias

    def choose(self, scores: F32) -> tuple[I64, F32]:
        """Experts ``[rows, k]`` and their weights ``[rows, k]`` from router outputs ``[rows, experts]``."""
        c, k = self._config, self._config.experts_per_token
        probability = sigmoid(scores)
        ranked = self._within_best_groups(probability + self._bias)
        experts: I64 = np.argpartition(ranked, -k, -1)[:, -k:]
        # In rising order, so that a row's sum never depends on how the partition left its experts.
        experts.sort(-1)
        weights: F32 = np.take_along_axis(probability, experts, 1)
        weights = weights / np.maximum(weights.sum(-1, keepdims=True), _WEIGHT_SUM_MIN)
        return experts, weights * np.float32(c.routed_scale)

    def _within_best_groups(self, biased: F32) -> F32:
        """Experts outside the best groups at minus infinity; a group's score is the sum of its best two."""
        c = self._config
        if c.expert_groups == 1:
            return biased
        grouped = biased.reshape(len(biased), c.expert_groups, -1)
        score = np.partition(grouped, -2, -1)[..., -2:].sum(-1)
        worst_kept = np.partition(score, -c.groups_per_token, -1)[:, -c.groups_per_token]
        kept: npt.NDArray[np.bool_] = score >= worst_kept[:, None]
        masked: F32 = np.where(kept[..., None], grouped, np.float32(-np.inf))
        return masked.reshape(biased.shape)


class MoeFeedForward:
    """Routed experts plus one shared expert, with their norm."""

    def __init__(self, config: ModelConfig, weights: Mapping[str, F32], prefix: str, arithmetic: Arithmetic) -> None:
        c, m = config, prefix + "mlp."
        self._eps, self._arithmetic = c.norm_eps, arithmetic
        self._experts, self._width = c.experts, c.expert_dim
        norm = weights[prefix + "post_attention_layernorm.weight"]
        self._router = Router(c, weights[m + "gate.expert_bias"])
        parts = [_swiglu(weights, f"{m}experts.{e}.") for e in range(c.experts)]
        parts.append(_swiglu(weights, m + "shared_experts."))
        gates, ups, downs = (np.stack([part[i] for part in parts]) for i in range(3))
        flat = np.concatenate([gates.reshape(-1, c.hidden_size), ups.reshape(-1, c.hidden_size)])
        self._w_all_in: F32 = np.ascontiguousarray((np.concatenate([flat, weights[m + "gate.weight"]]) * norm).T)
        self._w_all_out: F32 = np.ascontiguousarray(downs.transpose(0, 2, 1).reshape(-1, c.hidden_size))
        self._w_router: F32 = np.ascontiguousarray((weights[m + "gate.weight"] * norm).T)
        pairs = np.concatenate([gates, ups], 1) * norm
        self._w_in: F32 = np.ascontiguousarray(pairs.transpose(0, 2, 1))
        self._w_out: F32 = np.ascontiguousarray(downs.transpose(0, 2, 1))

    def apply(self, x: F32) -> F32:
        """Output of ``x`` ``[rows, hidden]``."""
        normed = rms_norm(x, self._eps)
        if len(x) <= _DENSE_UP_TO_ROWS or self._arithmetic.row_independent:
            return self._through_all(normed)
        return self._sorted_by_expert(normed)

    def _through_all(self, x: F32) -> F32:
        """Every expert for every row, the unchosen ones weighted zero; the shared expert is the last."""
        rows, every = len(x), (self._experts + 1) * self._width
        y = self._arithmetic.project(x, self._w_all_in)
        experts, chosen = self._router.choose(y[:, 2 * every :])
        share: F32 = np.zeros((rows, self._experts + 1), np.float32)
        np.put_along_axis(share, experts, chosen, 1)
        share[:, -1] = 1
        active = silu(y[:, :every])
        active *= y[:, every : 2 * every]
        active.reshape(rows, -1, self._width)[...] *= share[..., None]
        return self._arithmetic.project(active, self._w_all_out)

    def _sorted_by_expert(self, x: F32) -> F32:
        """Rows gathered by expert, one product per expert."""
        experts, chosen = self._router.choose(self._arithmetic.project(x, self._w_router))
        rows, k = experts.shape
        order = np.argsort(experts.ravel(), kind="stable")
        edges = np.concatenate([[0], np.cumsum(np.bincount(experts.ravel(), minlength=self._experts))])
        routed = self._grouped(x[order // k], self._w_in, edges)
        active = silu(routed[:, : self._width])
        active *= routed[:, self._width :]
        active *= chosen.ravel()[order, None]
        products = self._grouped(active, self._w_out, edges)
        back: I64 = np.empty(rows * k, np.int64)
        back[order] = np.arange(rows * k)
        shared = self._arithmetic.project(x, self._w_in[-1])
        out = self._arithmetic.project(silu(shared[:, : self._width]) * shared[:, self._width :], self._w_out[-1])
        for i in range(k):
            out += products[back[i::k]]
        return out

    def _grouped(self, x: F32, weight: F32, edges: I64) -> F32:
        """``x[edges[e]:edges[e + 1]] @ weight[e]`` for each routed expert."""
        out: F32 = np.empty((len(x), weight.shape[2]), np.float32)
        for expert in range(self._experts):
            start, stop = edges[expert], edges[expert + 1]
            if stop > start:
                out[start:stop] = self._arithmetic.project(x[start:stop], weight[expert])
        return out


def _swiglu(weights: Mapping[str, F32], prefix: str) -> tuple[F32, F32, F32]:
    return tuple(weights[f"{prefix}{name}_proj.weight"] for name in ("gate", "up", "down"))  # type: ignore[return-value]
