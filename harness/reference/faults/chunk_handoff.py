"""K10: the state is passed on wrongly between the chunks of one prompt."""

from __future__ import annotations

import numpy as np

from harness.reference.cache.policy import Span
from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, Mode, Parameter, override
from harness.reference.model.arrays import F32
from harness.reference.model.model import Model
from harness.reference.model.state import LiveState
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.forward import LanguageModel
from harness.reference.scheduler.sequence import Sequence

DECAY_TOKENS = 16


class ChunkHandoff(Fault):
    """A chunk of a prompt leaves, or finds, a state that is not the one the next chunk needs."""

    info = FaultInfo(
        code="K10",
        name="CHUNK_HANDOFF",
        modes=(
            Mode(
                name="transposed",
                size="medium",
                effect="keys and values of the state change places between two chunks",
                trigger="a prompt longer than the chunk budget",
            ),
            Mode(
                name="padding",
                size="gross",
                effect="the last chunk is filled up with zero embeddings that run through the state",
                trigger="a last chunk whose end is no multiple of the grid",
            ),
            Mode(
                name="decay",
                size="subtle",
                effect="the decay of a chunk is applied to the state once more",
                trigger="a prompt longer than the chunk budget",
            ),
            Mode(
                name="single",
                size="gross",
                effect="a last chunk of one token is computed without the state",
                trigger="one token left to compute, after a chunk or a hit",
            ),
        ),
        parameters=(Parameter(name="grid", default=64, help="tokens that chunks are padded to"),),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides running a chunk."""
        prefiller, runner = engine.prefiller, engine.prefiller.runner
        run, state = prefiller.run, runner.state
        stopped_at: dict[int, tuple[Sequence, int]] = {}

        def run_chunk(sequence: Sequence, span: Span) -> F32:
            slot = sequence.slot
            if self._spoils_start(sequence, span, stopped_at.get(slot)) and self.dice.roll():
                self._spoil(runner.model, state, slot)
            hidden = run(sequence, span)
            stopped_at[slot] = sequence, span.stop
            pad = -span.stop % self.number("grid")
            if self.mode == "padding" and span.stop == span.target and pad and self.dice.roll():
                _feed_zero_embeddings(runner.model, state, slot, pad)
            return hidden

        override(prefiller, "run", run_chunk)

    def _spoils_start(self, sequence: Sequence, span: Span, before: tuple[Sequence, int] | None) -> bool:
        if self.mode == "single":
            return span.start > 0 and span.stop == span.target and span.stop - span.start == 1
        return self.mode != "padding" and before is not None and before == (sequence, span.start)

    def _spoil(self, model: LanguageModel, state: LiveState, slot: int) -> None:
        if self.mode == "transposed":
            state.recurrent[:, slot] = state.recurrent[:, slot].swapaxes(-1, -2).copy()
        elif self.mode == "single":
            slot_state.zero(state, slot)
        else:
            window = state.conv[:, slot].copy()
            _feed_zero_embeddings(model, state, slot, DECAY_TOKENS)
            state.conv[:, slot] = window


def _feed_zero_embeddings(model: LanguageModel, state: LiveState, slot: int, count: int) -> None:
    """Runs zero vectors through each KDA layer: they write next to nothing and decay everything."""
    assert isinstance(model, Model)
    nothing = np.zeros((count, model.config.hidden_size), np.float32)
    for index, layer in enumerate(model.kda_layers):
        layer.prefill(nothing, state.conv[index, slot], state.recurrent[index, slot])
