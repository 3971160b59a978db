"""K18: in a large batch some rows lose a state update."""

from __future__ import annotations

from harness.reference.faults.fault import Fault, FaultInfo, Mode, Parameter, override
from harness.reference.model.arrays import F32, I64
from harness.reference.model.model import StepStates
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.forward import KeptStates


class BatchSize(Fault):
    """A step reads the state before the step before it has written it, in the rows beyond a batch size."""

    info = FaultInfo(
        code="K18",
        name="BATCH_SIZE_DEPENDENT",
        modes=(
            Mode(
                name="skip",
                size="medium",
                effect="the recurrent state of a row is not updated",
                trigger="rows from `from` on in a decode batch, each with probability rate (0.1 and less is natural)",
            ),
        ),
        parameters=(Parameter(name="from", default=4, help="rows of a batch that are safe"),),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides the decode forwards."""
        runner, safe = engine.prefiller.runner, self.number("from")
        decode, verify, state = runner.decode, runner.verify, runner.state

        def unlucky(slots: list[int]) -> dict[int, F32]:
            return {
                row: state.recurrent[:, slot].copy()
                for row, slot in enumerate(slots)
                if row >= safe and self.dice.roll()
            }

        def decode_racing(slots: list[int], tokens: list[int]) -> F32:
            before = unlucky(slots)
            hidden = decode(slots, tokens)
            for row, recurrent in before.items():
                state.recurrent[:, slots[row]] = recurrent
            return hidden

        def verify_racing(slots: list[int], tokens: I64) -> tuple[F32, KeptStates]:
            before = unlucky(slots)
            hidden, states = verify(slots, tokens)
            assert isinstance(states, StepStates)
            for row, recurrent in before.items():
                state.recurrent[:, slots[row]] = recurrent
                for layer, trace in enumerate(states.traces):
                    trace.recurrent[:, row] = recurrent[layer]
            return hidden, states

        override(runner, "decode", decode_racing)
        override(runner, "verify", verify_racing)
