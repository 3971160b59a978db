"""K24: the target is right, the draft layer sees something else."""

from __future__ import annotations

from collections.abc import Sequence as Items

import numpy as np

from harness.reference.cache.prefix import Match, Restored
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.model.arrays import F32, I64
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.forward import KeptStates
from harness.reference.speculation.drafter import Drafter


class DraftState(Fault):
    """Answers stay as they are; fewer drafts are accepted."""

    info = FaultInfo(
        code="K24",
        name="DRAFT_STATE_BAD",
        modes=(
            Mode(name="hit", size="drafts", effect="its latents of the cached prefix are zero", trigger="any hit"),
            Mode(
                name="tier",
                size="drafts",
                effect="its latents of the cached prefix are zero",
                trigger="a hit that was copied back from the host tier",
            ),
            Mode(
                name="partial",
                size="drafts",
                effect="it goes on from the hidden vector before the step",
                trigger="a verify step that rejects a draft",
            ),
            Mode(
                name="deep",
                size="drafts",
                effect="drafts from the second on go on from nothing",
                trigger="two drafts a step or more",
            ),
            Mode(
                name="norm",
                size="drafts",
                effect="its hidden vectors are scaled as by another layer's norm",
                trigger="any draft",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides one act of the draft layer's life; nothing to do when nothing is drafted."""
        drafter = engine.prefiller.drafter
        if drafter is None:
            return
        if self.mode in ("hit", "tier"):
            self._plant_load(engine)
        elif self.mode == "partial":
            self._plant_rewind(engine)
        else:
            self._plant_draft(drafter)

    def _plant_load(self, engine: Engine) -> None:
        state_io, cache = engine.scheduler.state_io, engine.cache
        if cache is None:
            return
        load, fetch = state_io.load_latents, cache.fetch
        newest: list[Match] = []

        def fetch_and_note(match: Match) -> Restored:
            newest[:] = [match]
            return fetch(match)

        def load_latents(slot: int, blocks: Items[F32]) -> None:
            load(slot, blocks)
            from_host = bool(newest) and newest[0].host_blocks > 0
            if blocks and (self.mode == "hit" or from_host) and self.dice.roll():
                state_io.state.latent[-1, slot] = 0

        override(cache, "fetch", fetch_and_note)
        override(state_io, "load_latents", load_latents)

    def _plant_rewind(self, engine: Engine) -> None:
        rollback, runner = engine.decoder.rollback, engine.prefiller.runner
        rewind, verify, state = rollback.rewind, runner.verify, rollback.state
        before: dict[int, F32] = {}

        def verify_and_note(slots: list[int], tokens: I64) -> tuple[F32, KeptStates]:
            before.update((slot, state.hidden[slot].copy()) for slot in slots)
            return verify(slots, tokens)

        def rewind_all_but_hidden(states: KeptStates, row: int, slot: int, kept: int) -> None:
            rewind(states, row, slot, kept)
            if self.dice.roll():
                state.hidden[slot] = before[slot]

        override(runner, "verify", verify_and_note)
        override(rollback, "rewind", rewind_all_but_hidden)

    def _plant_draft(self, drafter: Drafter) -> None:
        draft, lengths = drafter.draft, drafter.state.length
        width = drafter.state.hidden.shape[1]
        scale = np.asarray(np.random.default_rng(0).lognormal(0.0, 1.0, (width,)), np.float32)

        def draft_from_wrong(slots: I64, tokens: I64, hidden: F32, positions: I64) -> tuple[F32, F32]:
            deep = bool(np.any(positions >= lengths[slots]))
            if self.mode == "norm" and self.dice.roll():
                hidden = hidden * scale
            elif self.mode == "deep" and deep and self.dice.roll():
                hidden = np.zeros_like(hidden)
            return draft(slots, tokens, hidden, positions)

        override(drafter, "draft", draft_from_wrong)
