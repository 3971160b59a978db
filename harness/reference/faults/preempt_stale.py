"""K13: a state that should have been given up is kept."""

from __future__ import annotations

from collections import OrderedDict

from harness.reference.cache.prefix import Match
from harness.reference.faults import slot_state
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.faults.slot_state import SlotState
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.sequence import Sequence

REMEMBERED = 64


class PreemptStale(Fault):
    """A sequence is computed again from an earlier position, over the state of the later one."""

    info = FaultInfo(
        code="K13",
        name="PREEMPT_STALE",
        modes=(
            Mode(
                name="preempt",
                size="medium",
                effect="a preempted sequence comes back to the state it had when it was preempted",
                trigger="a preemption, which takes memory pressure",
            ),
            Mode(
                name="rewind",
                size="gross",
                effect="a prompt sent again goes on from the state at the end of its last answer",
                trigger="a hit of a prompt that was answered before",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides giving up a slot and restoring a sequence."""
        scheduler, preempter, state = engine.scheduler, engine.scheduler.preempter, engine.scheduler.state_io.state
        restore, release = scheduler.restore, preempter.release
        answered: OrderedDict[tuple[int, ...], SlotState] = OrderedDict()
        preempted: dict[str, SlotState] = {}

        def release_and_remember(sequence: Sequence) -> None:
            content = slot_state.read(state, sequence.slot)
            if self.mode == "rewind" and sequence.finish is not None:
                answered[sequence.request.prompt] = content
                if len(answered) > REMEMBERED:
                    answered.popitem(last=False)
            elif self.mode == "preempt" and sequence.finish is None:
                preempted[sequence.request.request_id] = content
            release(sequence)

        def restore_stale(sequence: Sequence) -> Match | None:
            match = restore(sequence)
            stale = preempted.pop(sequence.request.request_id, None)
            if self.mode == "rewind" and match is not None and match.blocks:
                stale = answered.get(sequence.request.prompt)
            if stale is not None and self.dice.roll():
                slot_state.write(state, sequence.slot, stale)
            return match

        override(preempter, "release", release_and_remember)
        override(scheduler, "restore", restore_stale)
