"""The embedded models' weights in closed form: a history of the last tokens, memories keyed by it, and readers.

The residual stream carries the current token's code, a history of the six tokens before it, the code of the answer the
memories recall, a large constant and three flags (``codes``). Layers do one thing each:

* *Shift heads* put rotated codes of earlier tokens into the history. In KDA the key is constant and the write strength
  near 1, so the delta rule overwrites its one row and reads back the value its convolution tap picked. In MLA the
  rotary part of a constant query points a fixed number of positions back.
* *Fact memory* (KDA): the key is a sparse random feature of the history, the value the token's code, the query the
  feature of the history one token on; without decay, and open only for digits shortly after " is".
* *Fatigue* (KDA): a constant key with a small write strength keeps a running mean of the last tokens, held against
  them.
* *Context memory* (KDA): always open, keyed by the previous token, with a decay per channel.
* *Copy heads* (MLA): the key is the history, the value the token, the query the history one token on. The MTP layer is
  such a layer, its input rebuilt by ``eh_proj``.

Values are written tiny, so that SiLU (x / 2 near zero) and the output norm (its epsilon dominates) stay linear. Experts
are small random perturbations. The output head is fitted afterwards (``head``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from harness.reference.config import ModelConfig
from harness.reference.model.arrays import F32
from harness.reference.weights.codes import (
    ANSWER,
    ASSIGN,
    ASSIGNED,
    CODE_DIM,
    CONSTANT,
    CONSTANT_SIZE,
    DIGIT,
    F64,
    HISTORY,
    SYMBOL_DIM,
    TOKEN,
    TokenCodes,
)
from harness.reference.weights.random_weights import random_weights

_NO_DECAY = -20.0
_VALUE = 2e-4
"""Size of values in the recurrent state."""
_SHIFT_STRENGTH = 4.0
"""Before the sigmoid: 0.98, so that a shift head's recurrent state keeps a trace of the token before."""
_OLD_QUERY = 0.05
"""Share of the query three tokens back in a fact's query, so that the layer's convolution state matters."""
_FEATURE_GAIN = 6.0
_FACT_THRESHOLD = 1.6
_CONTEXT_THRESHOLD = 0.5
_OTHER_WEIGHT = 0.3
"""Weight of words against digits in a fact's key."""
_FACT_GAIN = 0.5
_CONTEXT_GAIN = 0.3
_SYMBOL_COPY = 0.5
"""How much of a digit's code the copy heads carry in the hybrid: the fact memory has to bring the rest."""
_FATIGUE_GAIN = 1.5
_FATIGUE_TOKENS = 24
"""How far back a token that was just said is held against it."""
_COPY_HEADS = ((45.0, 0.7), (25.0, 0.3))
"""Sharpness and share of the answer of each copy head."""
_ROTARY_PULL = 40.0
"""Score of the position a rotary shift head points at; its neighbours fall behind by half of it."""
_ANSWER_GAIN = 24.0
_EXPERT_GAIN = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """One shift head: puts ``source`` of ``steps`` tokens back, aged by ``age``, into the history."""

    steps: int
    age: int
    source: slice


_SHIFTS = {
    (0, 0): Shift(steps=1, age=0, source=TOKEN),
    (0, 1): Shift(steps=2, age=1, source=TOKEN),
    (1, 0): Shift(steps=3, age=2, source=TOKEN),
    (2, 0): Shift(steps=3, age=3, source=HISTORY),
}
"""By KDA layer and head; together they reach six tokens back."""
_CONTEXT_HEADS = {(1, 1)}
_FATIGUE_HEADS = {(2, 1)}
_ROTARY_SHIFTS = {
    (0, 0): Shift(steps=1, age=0, source=TOKEN),
    (0, 1): Shift(steps=2, age=1, source=TOKEN),
    (1, 0): Shift(steps=2, age=2, source=HISTORY),
    (1, 1): Shift(steps=4, age=4, source=HISTORY),
}
"""The same in the attention twin, by layer and head."""
_ROTARY_LAYERS = 2


class Construction:
    """Builds the tensors of one model, named as published checkpoints name them."""

    def __init__(self, config: ModelConfig, codes: TokenCodes, seed: int) -> None:
        self._config, self._codes = config, codes
        self._rng = np.random.default_rng(seed)
        self._norm = CONSTANT_SIZE / math.sqrt(config.hidden_size)
        self._weights = random_weights(config, seed)

    def build(self) -> dict[str, F32]:
        """All tensors; the output head reads the answer alone until it is fitted."""
        c = self._config
        self._embedding()
        for layer in range(c.layers):
            if c.is_attention(layer):
                self._attention(layer)
            else:
                self._linear_attention(layer)
        if c.mtp_layers:
            self._copy_layer(c.layers)
            self._draft_input()
        self._quiet_experts()
        head = np.zeros((c.vocab_size, c.hidden_size))
        head[:, ANSWER] = self._codes.codes / np.sqrt(self._codes.salience)[:, None] * _ANSWER_GAIN * self._norm
        self._put("lm_head.weight", head)
        return self._weights

    def _put(self, name: str, value: F64) -> None:
        self._weights[name] = np.ascontiguousarray(value, np.float32)

    def _embedding(self) -> None:
        table = np.zeros((self._config.vocab_size, self._config.hidden_size))
        table[:, TOKEN] = self._codes.codes * self._codes.salience[:, None]
        table[:, CONSTANT] = CONSTANT_SIZE
        table[:, DIGIT] = self._codes.digit
        table[:, ASSIGN] = self._codes.assign
        self._put("model.word_embeddings.weight", table)

    def _linear_attention(self, layer: int) -> None:
        c = self._config
        inner, hidden = c.kda_dim, c.hidden_size
        parts: dict[str, F64] = {name: np.zeros((inner, hidden)) for name in "qkvfg"}
        parts["b"] = np.zeros((c.heads, hidden))
        taps: dict[str, F64] = {name: np.zeros((inner, 1, c.conv_kernel)) for name in "qkv"}
        for tap in taps.values():
            tap[:, 0, -1] = 1
        out: F64 = np.zeros((hidden, inner))
        decay = np.full(inner, _NO_DECAY)
        for head in range(c.heads):
            rows = slice(head * c.head_dim, (head + 1) * c.head_dim)
            views = _KdaHead(
                q=parts["q"][rows],
                k=parts["k"][rows],
                v=parts["v"][rows],
                b=parts["b"][head],
                out=out[:, rows],
                q_taps=taps["q"][rows, 0],
                k_taps=taps["k"][rows, 0],
                v_taps=taps["v"][rows, 0],
                decay=decay[rows],
            )
            self._kda_head(layer, head, views)
        prefix = f"model.layers.{layer}.attention."
        for name, value in parts.items():
            self._put(f"{prefix}{name}_proj.weight", value)
        for name, value in taps.items():
            self._put(f"{prefix}{name}_conv1d.weight", value)
        self._put(prefix + "o_proj.weight", out)
        self._put(prefix + "dt_bias", decay)
        self._put(prefix + "A_log", np.zeros(c.heads))

    def _kda_head(self, layer: int, head: int, views: _KdaHead) -> None:
        if (layer, head) in _SHIFTS:
            self._shift_head(_SHIFTS[layer, head], views, flags=head == 0 and layer in (0, 2))
        elif (layer, head) in _CONTEXT_HEADS:
            self._context_head(views)
        elif (layer, head) in _FATIGUE_HEADS:
            self._fatigue_head(views)
        else:
            self._fact_head(views)

    def _read_gain(self) -> float:
        """Undoes what a value meets on its way out: value size, SiLU 1/2, gate 1/2, K^-1/2, and the norm's epsilon."""
        return math.sqrt(self._config.norm_eps) * 4 * math.sqrt(self._config.head_dim) / _VALUE

    def _shift_head(self, shift: Shift, views: _KdaHead, *, flags: bool) -> None:
        views.q[0, CONSTANT] = views.k[0, CONSTANT] = 1
        views.b[CONSTANT] = _SHIFT_STRENGTH / CONSTANT_SIZE * self._norm
        views.v[:CODE_DIM, shift.source] = self._codes.shifted(shift.age) * _VALUE * self._norm
        views.v_taps[:] = 0
        views.v_taps[:, -1 - shift.steps] = 1
        views.out[HISTORY, :CODE_DIM] = np.eye(CODE_DIM) * self._read_gain()
        if flags:
            nearby = shift.source == TOKEN
            views.v[CODE_DIM, ASSIGN if nearby else ASSIGNED] = _VALUE * self._norm
            views.v_taps[CODE_DIM] = (1, 1, 1, 0) if nearby else (1, 0, 0, 0)
            views.out[ASSIGNED, CODE_DIM] = self._read_gain()

    def _fact_head(self, views: _KdaHead) -> None:
        weight = np.where(np.arange(CODE_DIM) < SYMBOL_DIM, 1.0, _OTHER_WEIGHT)
        features = self._rng.standard_normal((self._config.head_dim, CODE_DIM)) * weight
        features /= np.sqrt((features**2).sum(1, keepdims=True) * 4 / CODE_DIM)
        features *= _FEATURE_GAIN * self._norm
        views.k[:, HISTORY] = views.q[:, TOKEN] = features
        views.q[:, HISTORY] = features @ self._codes.shifted(1)
        views.q[:, CONSTANT] = views.k[:, CONSTANT] = -_FACT_THRESHOLD * _FEATURE_GAIN / CONSTANT_SIZE * self._norm
        views.q_taps[:, 0] = _OLD_QUERY
        views.b[DIGIT] = views.b[ASSIGNED] = 20 * self._norm
        views.b[CONSTANT] = -30 / CONSTANT_SIZE * self._norm
        self._remember_token(views, _FACT_GAIN)

    def _context_head(self, views: _KdaHead) -> None:
        dim = self._config.head_dim
        features = self._rng.standard_normal((dim, CODE_DIM)) / math.sqrt(CODE_DIM) * _FEATURE_GAIN * self._norm
        views.k[:, TOKEN] = views.q[:, TOKEN] = features
        views.k_taps[:] = (0, 0, 1, 0)
        bias = -_CONTEXT_THRESHOLD * _FEATURE_GAIN / CONSTANT_SIZE * self._norm
        views.q[:, CONSTANT] = views.k[:, CONSTANT] = bias
        views.decay[:] = np.linspace(-9, -5, dim)
        self._remember_token(views, _CONTEXT_GAIN)

    def _fatigue_head(self, views: _KdaHead) -> None:
        """A running mean of the last tokens, held against them: greedy decoding leaves loops."""
        views.q[0, CONSTANT] = views.k[0, CONSTANT] = 1
        views.b[CONSTANT] = -math.log(_FATIGUE_TOKENS - 1) / CONSTANT_SIZE * self._norm
        self._remember_token(views, -_FATIGUE_GAIN)

    def _remember_token(self, views: _KdaHead, gain: float) -> None:
        views.v[:CODE_DIM, TOKEN] = np.eye(CODE_DIM) * _VALUE * self._norm
        views.out[ANSWER, :CODE_DIM] = np.eye(CODE_DIM) * self._read_gain() * gain

    def _attention(self, layer: int) -> None:
        if self._config.kda_layers == 0 and layer < _ROTARY_LAYERS:
            self._rotary_shift_layer(layer)
        else:
            self._copy_layer(layer)

    def _latent_scale(self) -> float:
        return CONSTANT_SIZE / math.sqrt(self._config.kv_rank)

    def _copy_layer(self, layer: int) -> None:
        """Two copy heads, a sharp and a softer one."""
        c, d = self._config, CODE_DIM
        down = np.zeros((c.latent_dim, c.hidden_size))
        down[:d, HISTORY] = down[d : 2 * d, TOKEN] = np.eye(d)
        down[2 * d, CONSTANT] = 1
        pure = c.kda_layers == 0
        readers = c.layers - _ROTARY_LAYERS if pure and layer < c.layers else 1
        kept = np.where(np.arange(d) < SYMBOL_DIM, 1.0 if pure else _SYMBOL_COPY, 1.0)
        up: F64 = np.zeros((c.heads, c.nope_dim + c.value_dim, c.kv_rank))
        query: F64 = np.zeros((c.heads, c.query_dim, c.hidden_size))
        out = np.zeros((c.hidden_size, c.heads, c.value_dim))
        for head, (sharpness, share) in enumerate(_COPY_HEADS):
            up[head, :d, :d] = np.eye(d) * self._latent_scale()
            up[head, c.nope_dim : c.nope_dim + d, d : 2 * d] = np.diag(kept) * self._latent_scale()
            query[head, :d, TOKEN] = np.eye(d)
            query[head, :d, HISTORY] = self._codes.shifted(1)
            query[head] *= self._norm * sharpness * math.sqrt(c.query_dim)
            out[ANSWER, head, :d] = np.eye(d) * 2 * share / readers
        self._put_attention(layer, down, up, query, out)

    def _put_attention(self, layer: int, down: F64, up: F64, query: F64, out: F64) -> None:
        c, prefix = self._config, f"model.layers.{layer}.attention."
        self._put(prefix + "kv_a_proj_with_mqa.weight", down)
        self._put(prefix + "kv_b_proj.weight", up.reshape(-1, c.kv_rank))
        self._put(prefix + "q_proj.weight", query.reshape(-1, c.hidden_size))
        self._put(prefix + "g_proj.weight", np.zeros((c.heads, c.hidden_size)))
        self._put(prefix + "dense.weight", out.reshape(c.hidden_size, -1))

    def _rotary_shift_layer(self, layer: int) -> None:
        c, d = self._config, CODE_DIM
        down = np.zeros((c.latent_dim, c.hidden_size))
        down[:d, TOKEN] = down[d : 2 * d, HISTORY] = np.eye(d)
        down[2 * d, CONSTANT] = 1
        down[c.kv_rank :: 2, CONSTANT] = self._norm / CONSTANT_SIZE
        up: F64 = np.zeros((c.heads, c.nope_dim + c.value_dim, c.kv_rank))
        query: F64 = np.zeros((c.heads, c.query_dim, c.hidden_size))
        out = np.zeros((c.hidden_size, c.heads, c.value_dim))
        turn = 1 / c.rope_theta ** (np.arange(0, c.rope_dim, 2) / c.rope_dim)
        for head in range(c.heads):
            shift = _ROTARY_SHIFTS[layer, head]
            start = 0 if shift.source == TOKEN else d
            up[head, c.nope_dim : c.nope_dim + d, start : start + d] = np.eye(d) * self._latent_scale()
            pull = _ROTARY_PULL * math.sqrt(c.query_dim) * self._norm / CONSTANT_SIZE
            query[head, c.nope_dim :: 2, CONSTANT] = np.cos(turn * shift.steps) * pull
            query[head, c.nope_dim + 1 :: 2, CONSTANT] = -np.sin(turn * shift.steps) * pull
            out[HISTORY, head, :d] = self._codes.shifted(shift.age) * 2
        self._put_attention(layer, down, up, query, out)

    def _draft_input(self) -> None:
        """``eh_proj`` rebuilds the stream: the new token, and the history one token on."""
        hidden, n = self._config.hidden_size, self._norm
        joined = np.zeros((hidden, 2 * hidden))
        joined[TOKEN, TOKEN] = np.eye(CODE_DIM) * n
        for flag in (CONSTANT, DIGIT, ASSIGN):
            joined[flag, flag] = n
        history = joined[HISTORY, hidden:]
        history[:, TOKEN] = np.eye(CODE_DIM) * n
        history[:, HISTORY] = self._codes.shifted(1) * n
        self._put(f"model.layers.{self._config.layers}.eh_proj.weight", joined)

    def _quiet_experts(self) -> None:
        for name in self._weights:
            if "down_proj" in name:
                self._weights[name] *= np.float32(_EXPERT_GAIN)
                self._weights[name][CONSTANT:] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _KdaHead:
    """One head's rows of a KDA layer's tensors, to be written into."""

    q: F64
    k: F64
    v: F64
    b: F64
    out: F64
    q_taps: F64
    k_taps: F64
    v_taps: F64
    decay: F64
