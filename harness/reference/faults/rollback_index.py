"""K21: the state is rolled back to the wrong token of the step."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items

from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.faults.slot_state import SlotState
from harness.reference.model.arrays import F32, I64
from harness.reference.model.model import StepStates
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.forward import KeptStates
from harness.reference.scheduler.sequence import Sequence


class RollbackIndex(Fault):
    """Length and latents are right, recurrent and convolution state are those after fewer or more tokens."""

    info = FaultInfo(
        code="K21",
        name="WRONG_ROLLBACK_INDEX",
        modes=(
            Mode(
                name="early",
                size="gross",
                effect="one accepted token is missing from the state",
                trigger="a verify step that accepts some drafts and rejects others",
            ),
            Mode(
                name="late",
                size="gross",
                effect="one rejected token stays in the state",
                trigger="a verify step that rejects a draft",
            ),
            Mode(
                name="uncommitted",
                size="gross",
                effect="the state stays what it was before the step",
                trigger="a verify step that rejects a draft",
            ),
            Mode(
                name="column",
                size="medium",
                effect="the next step starts from the state after the first token only",
                trigger="a step that accepted drafts, followed by one with fewer drafts than usual: ends of answers",
            ),
            Mode(
                name="crossing",
                size="gross",
                effect="the state after the first token is kept",
                trigger="a step that accepts drafts and crosses a block boundary",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides rolling back, or the decode step where the fault shows only in the next one."""
        if self.mode in ("column", "crossing"):
            self._plant_step(engine)
        else:
            self._plant_rewind(engine)

    def _plant_rewind(self, engine: Engine) -> None:
        rollback, runner = engine.decoder.rollback, engine.prefiller.runner
        rewind, verify, state = rollback.rewind, runner.verify, rollback.state
        before: dict[int, SlotState] = {}

        def verify_and_note(slots: list[int], tokens: I64) -> tuple[F32, KeptStates]:
            if self.mode == "uncommitted":
                before.update((slot, slot_state.read(state, slot)) for slot in slots)
            return verify(slots, tokens)

        def rewind_wrongly(states: KeptStates, row: int, slot: int, kept: int) -> None:
            rewind(states, row, slot, kept)
            assert isinstance(states, StepStates)
            wrong = max(1, kept - 1) if self.mode == "early" else kept + 1
            partial = kept < states.hidden.shape[1]
            if not partial or (wrong == kept) or not self.dice.roll():
                return
            found = before[slot] if self.mode == "uncommitted" else None
            slot_state.write(state, slot, found or slot_state.passed_through(states, state, row, slot, wrong))

        override(runner, "verify", verify_and_note)
        override(rollback, "rewind", rewind_wrongly)

    def _plant_step(self, engine: Engine) -> None:
        decoder, runner, block_size = engine.decoder, engine.prefiller.runner, engine.scheduler.limits.block_size
        run, verify, state = decoder.run, runner.verify, runner.state
        newest: list[KeptStates] = []
        first_column: dict[int, tuple[Sequence, SlotState]] = {}

        def verify_and_note(slots: list[int], tokens: I64) -> tuple[F32, KeptStates]:
            hidden, states = verify(slots, tokens)
            newest[:] = [states]
            return hidden, states

        def run_step(batch: Items[Sequence], now_ns: Callable[[], int]) -> None:
            rows = sorted(batch, key=lambda sequence: sequence.slot)
            if self.mode == "column":
                self._read_first_column(engine, rows, first_column)
            starts = [sequence.computed for sequence in rows]
            run(batch, now_ns)
            for row, (sequence, start) in enumerate(zip(rows, starts, strict=True)):
                crosses = sequence.computed // block_size > start // block_size
                if not newest or sequence.computed - start < 2 or (self.mode == "crossing" and not crosses):
                    continue
                column = slot_state.passed_through(newest[0], state, row, sequence.slot, 1)
                if self.mode == "column":
                    first_column[sequence.slot] = sequence, column
                elif self.dice.roll():
                    slot_state.write(state, sequence.slot, column)

        override(runner, "verify", verify_and_note)
        override(decoder, "run", run_step)

    def _read_first_column(
        self, engine: Engine, rows: list[Sequence], first_column: dict[int, tuple[Sequence, SlotState]]
    ) -> None:
        """Puts the first column where the step before accepted drafts and this one has fewer of them."""
        for sequence in rows:
            owner, column = first_column.pop(sequence.slot, (None, None))
            fewer = len(sequence.drafts) < engine.scheduler.limits.drafts
            if column is not None and owner is sequence and fewer and self.dice.roll():
                slot_state.write(engine.scheduler.state_io.state, sequence.slot, column)
