"""K17: after a sequence has ended, two rows of the batch are taken for each other."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items

from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.model.arrays import F32, I64
from harness.reference.model.state import LiveState
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.forward import KeptStates
from harness.reference.scheduler.sequence import Sequence


class RowPermutation(Fault):
    """The step after a row was taken out of the batch reads per-row numbers in the old order."""

    info = FaultInfo(
        code="K17",
        name="ROW_PERMUTATION_RACE",
        modes=(
            Mode(
                name="counts",
                size="gross",
                effect="two rows are rolled back by each other's number of accepted drafts",
                trigger="speculative decoding, the step after a sequence ended, rows that accepted unequally",
            ),
            Mode(
                name="states",
                size="gross",
                effect="two rows run one step on each other's state",
                trigger="the step after a sequence ended, with two rows left or more",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides the decode step, and finishing and verifying to know when and what to confuse."""
        scheduler, decoder, runner = engine.scheduler, engine.decoder, engine.prefiller.runner
        finish, run, verify = scheduler.finish, decoder.run, runner.verify
        ended: list[Sequence] = []
        newest: list[KeptStates] = []

        def finish_and_note(sequence: Sequence) -> None:
            finish(sequence)
            ended.append(sequence)

        def verify_and_note(slots: list[int], tokens: I64) -> tuple[F32, KeptStates]:
            hidden, states = verify(slots, tokens)
            newest[:] = [states]
            return hidden, states

        def run_step(batch: Items[Sequence], now_ns: Callable[[], int]) -> None:
            rows = sorted(batch, key=lambda sequence: sequence.slot)
            due = bool(ended) and len(rows) > 1
            ended.clear()
            if self.mode == "states" and due and self.dice.roll():
                _swap(runner.state, rows[0].slot, rows[1].slot)
                run(batch, now_ns)
                _swap(runner.state, rows[0].slot, rows[1].slot)
                return
            starts = [sequence.computed for sequence in rows]
            run(batch, now_ns)
            if self.mode == "counts" and due and newest:
                kept = [sequence.computed - start for sequence, start in zip(rows, starts, strict=True)]
                self._confuse(runner.state, newest[0], rows, kept)

        override(scheduler, "finish", finish_and_note)
        override(runner, "verify", verify_and_note)
        override(decoder, "run", run_step)

    def _confuse(self, state: LiveState, states: KeptStates, rows: list[Sequence], kept: list[int]) -> None:
        """Rolls the first two rows that kept unequally to each other's place."""
        other = next((row for row in range(1, len(rows)) if kept[row] != kept[0]), None)
        if other is None or not self.dice.roll():
            return
        for row, wrong in ((0, kept[other]), (other, kept[0])):
            slot = rows[row].slot
            slot_state.write(state, slot, slot_state.passed_through(states, state, row, slot, wrong))


def _swap(state: LiveState, one: int, other: int) -> None:
    first, second = slot_state.read(state, one), slot_state.read(state, other)
    slot_state.write(state, one, second)
    slot_state.write(state, other, first)
