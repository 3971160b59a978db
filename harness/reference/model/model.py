"""The whole model: embeddings, layers, output head, drafts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.reference.config import ModelConfig
from harness.reference.model.arithmetic import ARITHMETIC, Mode
from harness.reference.model.arrays import F32, I64, Ints
from harness.reference.model.kda import KdaLayer, KdaTrace
from harness.reference.model.mla import MlaLayer, Rope
from harness.reference.model.moe import DenseFeedForward, MoeFeedForward
from harness.reference.model.mtp import MtpLayer
from harness.reference.model.numerics import rms_norm
from harness.reference.model.state import LiveState

_PREFILL_TILE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStates:
    """What a verify step passed through, so that rejected drafts can be taken back.

    Shapes: one trace per KDA layer, hidden ``[B, n, hidden_size]``, start ``[B]`` (lengths before the step).
    """

    traces: tuple[KdaTrace, ...]
    hidden: F32
    start: I64

    def rewind(self, state: LiveState, row: int, slot: int, kept: int) -> None:
        """Puts ``slot`` (row ``row`` of the step) where it was after the first ``kept`` of the n tokens.

        Raises:
            ValueError: ``kept`` is not in 1..n.
        """
        if not 1 <= kept <= self.hidden.shape[1]:
            raise ValueError(f"a step of {self.hidden.shape[1]} tokens cannot keep {kept}")
        for layer, trace in enumerate(self.traces):
            state.recurrent[layer, slot] = trace.recurrent[kept - 1, row]
            state.conv[layer, slot] = trace.window[row, kept : kept + 3]
        state.hidden[slot] = self.hidden[row, kept - 1]
        state.length[slot] = self.start[row] + kept


class Model:
    """Weights ready to run, over a ``LiveState`` the caller owns.

    Weight names are those of the published checkpoints (``model.layers.N.attention.q_proj.weight`` ...).
    """

    def __init__(self, config: ModelConfig, weights: Mapping[str, F32], *, mode: Mode = "default") -> None:
        self.config = config
        self.mode: Mode = mode
        self._arithmetic = ARITHMETIC[mode]()
        rope = Rope(config)
        self._embedding: F32 = weights["model.word_embeddings.weight"]
        self._final_norm: F32 = weights["model.norm.weight"]
        self._w_head: F32 = np.ascontiguousarray(weights["lm_head.weight"].T)
        self._mixers: list[KdaLayer | MlaLayer] = []
        self._feed_forwards: list[DenseFeedForward | MoeFeedForward] = []
        for layer in range(config.layers):
            prefix = f"model.layers.{layer}."
            if config.is_attention(layer):
                self._mixers.append(MlaLayer(config, weights, prefix, self._arithmetic, rope))
            else:
                self._mixers.append(KdaLayer(config, weights, prefix, self._arithmetic))
            kind = DenseFeedForward if layer < config.dense_layers else MoeFeedForward
            self._feed_forwards.append(kind(config, weights, prefix, self._arithmetic))
        self._mtp = MtpLayer(config, weights, self._arithmetic, rope) if config.mtp_layers else None

    @property
    def kda_layers(self) -> list[KdaLayer]:
        """The linear-attention layers, in the order of the live state's."""
        return [mixer for mixer in self._mixers if isinstance(mixer, KdaLayer)]

    def prefill(self, state: LiveState, slot: int, tokens: Ints) -> F32:
        """Feeds tokens to a slot and returns their hidden vectors after the final norm, ``[n, hidden_size]``.

        However a prompt is split, the result differs by rounding alone, and not at all in mode "deterministic".

        Raises:
            ValueError: no tokens, or more than the slot has room for.
        """
        if len(tokens) == 0 or state.length[slot] + len(tokens) > state.capacity:
            raise ValueError(f"cannot add {len(tokens)} tokens to slot {slot} at length {state.length[slot]}")
        hidden: F32 = np.empty((len(tokens), self.config.hidden_size), np.float32)
        for start in range(0, len(tokens), _PREFILL_TILE):
            tile = tokens[start : start + _PREFILL_TILE]
            if self._arithmetic.row_independent:
                hidden[start : start + len(tile)] = self.step(state, np.array([slot]), tile[None])[0]
            else:
                hidden[start : start + len(tile)] = self._prefill_tile(state, slot, tile)
        return hidden

    def step(self, state: LiveState, slots: I64, tokens: Ints) -> F32:
        """Feeds n tokens ``[B, n]`` to each of B slots, token by token: hidden vectors ``[B, n, hidden_size]``.

        Raises:
            ValueError: a slot has no room.
        """
        return self._step(state, slots, tokens, ())

    def verify(self, state: LiveState, slots: I64, tokens: Ints) -> tuple[F32, StepStates]:
        """``step``, and the states it passed through."""
        c, (batch, n) = self.config, tokens.shape
        start = state.length[slots]
        traces = tuple(
            KdaTrace(
                recurrent=np.empty((n, batch, c.heads, c.head_dim, c.head_dim), np.float32),
                window=np.empty((batch, 3 + n, 3 * c.kda_dim), np.float32),
            )
            for _ in range(c.kda_layers)
        )
        hidden = self._step(state, slots, tokens, traces)
        return hidden, StepStates(traces=traces, hidden=hidden, start=start)

    def logits(self, hidden: F32) -> F32:
        """Logits ``[..., vocab_size]`` of hidden vectors ``[..., hidden_size]``."""
        flat = self._arithmetic.project(hidden.reshape(-1, self.config.hidden_size), self._w_head)
        return flat.reshape(*hidden.shape[:-1], self.config.vocab_size)

    def draft_prefill(self, state: LiveState, slot: int, next_tokens: Ints, hidden: F32, start: int) -> None:
        """Writes the MTP layer's cache entries of positions ``start ..``, without attending.

        ``hidden`` ``[n, hidden_size]`` are the main model's vectors at those positions, ``next_tokens`` ``[n]`` the
        tokens one further on.

        Raises:
            ValueError: the model has no MTP layer.
        """
        mtp = self._require_mtp()
        stop = start + len(next_tokens)
        entries = mtp.entries(self._embedding[next_tokens], hidden, np.arange(start, stop))
        state.latent[-1, slot, start:stop] = entries

    def draft_step(self, state: LiveState, slots: I64, tokens: Ints, hidden: F32, positions: I64) -> tuple[F32, F32]:
        """Drafts one token for each of B slots: logits ``[B, vocab_size]`` and hidden vectors to draft on from.

        The first draft takes the newest token (not fed to the main model yet), ``state.hidden`` and position
        ``length - 1``; each further draft takes the previous draft, the hidden vectors returned, and the next position.
        Attends to entries ``[0, position]``.

        Raises:
            ValueError: the model has no MTP layer.
        """
        mtp = self._require_mtp()
        drafted = mtp.step(self._embedding[tokens], hidden, state.latent[-1], slots, positions)
        return self.logits(drafted), drafted

    def _require_mtp(self) -> MtpLayer:
        if self._mtp is None:
            raise ValueError("the model has no MTP layer to draft with")
        return self._mtp

    def _prefill_tile(self, state: LiveState, slot: int, tokens: Ints) -> F32:
        start, keep = int(state.length[slot]), self._arithmetic.keep
        x = keep(self._embedding[tokens])
        kda = mla = 0
        for mixer, feed_forward in zip(self._mixers, self._feed_forwards, strict=True):
            if isinstance(mixer, KdaLayer):
                mixed = mixer.prefill(x, state.conv[kda, slot], state.recurrent[kda, slot])
                kda += 1
            else:
                mixed = mixer.prefill(x, state.latent[mla, slot], start)
                mla += 1
            x = keep(x + mixed)
            x = keep(x + feed_forward.apply(x))
        hidden = rms_norm(x, self.config.norm_eps) * self._final_norm
        state.hidden[slot] = hidden[-1]
        state.length[slot] += len(tokens)
        return hidden

    def _step(self, state: LiveState, slots: I64, tokens: Ints, traces: tuple[KdaTrace, ...]) -> F32:
        """``step``; as many traces as KDA layers are filled, or none."""
        batch, n = tokens.shape
        starts = state.length[slots]
        if int(starts.max()) + n > state.capacity:
            raise ValueError(f"a slot has no room for {n} more tokens")
        rows, keep, width = _as_slice(slots), self._arithmetic.keep, self.config.hidden_size
        x = keep(self._embedding[tokens])
        kda = mla = 0
        for mixer, feed_forward in zip(self._mixers, self._feed_forwards, strict=True):
            if isinstance(mixer, KdaLayer):
                conv, recurrent = state.conv[kda][rows], state.recurrent[kda][rows]
                mixed = mixer.step(x, conv, recurrent, traces[kda] if traces else None)
                if not isinstance(rows, slice):
                    state.conv[kda][rows], state.recurrent[kda][rows] = conv, recurrent
                kda += 1
            else:
                mixed = mixer.step(x, state.latent[mla], slots, starts)
                mla += 1
            x = keep(x + mixed)
            x = keep(x + feed_forward.apply(x.reshape(batch * n, width)).reshape(batch, n, width))
        hidden = rms_norm(x, self.config.norm_eps) * self._final_norm
        state.hidden[slots] = hidden[:, -1]
        state.length[slots] += n
        return hidden


def _as_slice(slots: I64) -> slice | I64:
    """Neighbouring slots as a slice, whose views are advanced in place; others need a copy out and back."""
    first, count = int(slots[0]), len(slots)
    return slice(first, first + count) if np.array_equal(slots, np.arange(first, first + count)) else slots
