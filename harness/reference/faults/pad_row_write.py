"""K15: the padding rows of a batch write into a slot."""

from __future__ import annotations

from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.model.arrays import F32, I64
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.forward import KeptStates

CAPTURED_SIZES = frozenset({1, 2, 4, 8, 16, 32, 64})
PAD_TOKEN = 0


class PadRowWrite(Fault):
    """A batch is filled up to the next size a graph was captured for, and the filling runs through a state."""

    info = FaultInfo(
        code="K15",
        name="PAD_ROW_WRITE",
        modes=(
            Mode(
                name="first",
                size="gross",
                effect="the state of slot 0 takes in a pad token each step",
                trigger="decode batches of other sizes than 1, 2, 4, 8, 16, 32, 64",
            ),
            Mode(
                name="last",
                size="gross",
                effect="the last slot's does",
                trigger="such batches while every slot is taken, or all but few",
            ),
            Mode(
                name="parked",
                size="gross",
                effect="that of the slot freed last does",
                trigger="such batches once the freed slot has a new owner",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides the decode forwards, and freeing a slot to know the one freed last."""
        runner, slots = engine.prefiller.runner, engine.scheduler.slots
        decode, verify, free = runner.decode, runner.verify, slots.free
        freed: list[int] = []

        def pad(batch: int) -> None:
            victim = {"first": 0, "last": slots.slots - 1, "parked": freed[-1] if freed else None}[self.mode]
            if batch not in CAPTURED_SIZES and victim is not None and self.dice.roll():
                slot_state.advance(runner.model, runner.state, victim, [PAD_TOKEN])

        def decode_padded(batch: list[int], tokens: list[int]) -> F32:
            pad(len(batch))
            return decode(batch, tokens)

        def verify_padded(batch: list[int], tokens: I64) -> tuple[F32, KeptStates]:
            pad(len(batch))
            return verify(batch, tokens)

        def free_slot(slot: int) -> None:
            freed[:] = [slot]
            free(slot)

        override(runner, "decode", decode_padded)
        override(runner, "verify", verify_padded)
        override(slots, "free", free_slot)
