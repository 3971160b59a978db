"""K12: two running sequences share one slot."""

from __future__ import annotations

import numpy as np

from harness.reference.faults.fault import Fault, FaultInfo, Mode, Parameter, override
from harness.reference.model.arrays import F32, I64
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.forward import KeptStates


class SlotAlias(Fault):
    """Under load slot numbers wrap around too early."""

    info = FaultInfo(
        code="K12",
        name="SLOT_ALIAS",
        modes=(
            Mode(
                name="modulo",
                size="gross",
                effect="a sequence is given slot number modulo (from - 1), which another one has",
                trigger="as many sequences as `from` at once, and not all of them",
            ),
        ),
        parameters=(
            Parameter(name="from", default=3, help="sequences at once from which slots are shared; 2 or more"),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides handing out and taking back slots."""
        slots, wrap = engine.scheduler.slots, max(1, self.number("from") - 1)
        allocate, free = slots.allocate, slots.free
        guests: dict[int, list[int]] = {}

        def allocate_wrapped() -> int | None:
            slot = allocate()
            if slot is None or slot < wrap or not self.dice.roll():
                return slot
            guests.setdefault(slot % wrap, []).append(slot)
            return slot % wrap

        def free_wrapped(slot: int) -> None:
            free(guests[slot].pop() if guests.get(slot) else slot)

        override(slots, "allocate", allocate_wrapped)
        override(slots, "free", free_wrapped)
        self._keep_within_capacity(engine)

    def _keep_within_capacity(self, engine: Engine) -> None:
        """Two sequences in one slot may outgrow it: then they begin to overwrite its end instead of failing."""
        runner = engine.prefiller.runner
        prefill, decode, verify, state = runner.prefill, runner.decode, runner.verify, runner.state

        def make_room(slots: list[int], count: int) -> None:
            state.length[slots] = np.minimum(state.length[slots], state.capacity - count)

        def prefill_within(slot: int, tokens: list[int]) -> F32:
            make_room([slot], len(tokens))
            return prefill(slot, tokens)

        def decode_within(slots: list[int], tokens: list[int]) -> F32:
            make_room(slots, 1)
            return decode(slots, tokens)

        def verify_within(slots: list[int], tokens: I64) -> tuple[F32, KeptStates]:
            make_room(slots, tokens.shape[1])
            return verify(slots, tokens)

        override(runner, "prefill", prefill_within)
        override(runner, "decode", decode_within)
        override(runner, "verify", verify_within)
