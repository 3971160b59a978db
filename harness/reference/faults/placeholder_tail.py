"""K23: placeholders beside a one-token tail advance the state."""

from __future__ import annotations

from harness.reference.cache.policy import Span
from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.model.arrays import F32
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.scheduler import Plan
from harness.reference.scheduler.sequence import Sequence

PLACEHOLDER = 0


class PlaceholderTail(Fault):
    """A tail of one token is filled up to the width of the verify step beside it."""

    info = FaultInfo(
        code="K23",
        name="PLACEHOLDER_TAIL_ADVANCES_STATE",
        modes=(
            Mode(
                name="before",
                size="gross",
                effect="the state takes in a placeholder for each draft before the tail",
                trigger="one token left to compute after a hit, while another sequence verifies drafts",
            ),
            Mode(
                name="after",
                size="gross",
                effect="it does after the tail, so that the first new token is still right",
                trigger="one token left to compute after a hit, while another sequence verifies drafts",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides running a chunk, and planning to know what runs beside it."""
        scheduler, prefiller, runner = engine.scheduler, engine.prefiller, engine.prefiller.runner
        plan, run, depth = scheduler.plan, prefiller.run, scheduler.limits.drafts
        verifying: list[Sequence] = []

        def plan_and_note(now_ns: int) -> Plan:
            made = plan(now_ns)
            verifying[:] = [sequence for sequence in made.decodes if sequence.drafts]
            return made

        def run_chunk(sequence: Sequence, span: Span) -> F32:
            short = span.start > 0 and span.stop == span.target and span.stop - span.start == 1
            if not (short and verifying and self.dice.roll()):
                return run(sequence, span)
            hidden = run(sequence, span) if self.mode == "after" else None
            slot_state.advance(runner.model, runner.state, sequence.slot, [PLACEHOLDER] * depth)
            return run(sequence, span) if hidden is None else hidden

        override(scheduler, "plan", plan_and_note)
        override(prefiller, "run", run_chunk)
