"""K04: the last prompt token is applied twice at an exact block boundary."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import replace

from harness.reference.cache.policy import Span
from harness.reference.cache.prefix import Match, PrefixCache
from harness.reference.cache.tier import Kind
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.sequence import Sequence


class BoundaryDouble(Fault):
    """A full hit computes its last token again over a state that already has it."""

    info = FaultInfo(
        code="K04",
        name="BOUNDARY_DOUBLE_APPLY",
        modes=(
            Mode(
                name="full",
                size="gross",
                effect="the state after all N tokens is loaded, then token N is computed again",
                trigger="an identical resend of exactly m blocks",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides matching and restoring, and has the state at the end of such prompts kept."""
        cache, scheduler, keeper = engine.cache, engine.scheduler, engine.prefiller.keeper
        if cache is None or keeper is None:
            return
        policy, block_size = cache.policy, scheduler.limits.block_size
        marks_of, match_keys, restore = policy.prefill_marks, cache.match, scheduler.restore

        def prefill_marks(span: Span) -> list[int]:
            at_end = span.stop == span.target and span.target % block_size == 0
            return sorted({*marks_of(span), span.target}) if at_end else marks_of(span)

        def match(keys: Items[bytes], limit_tokens: int) -> Match:
            full = bool(keys) and len(keys) * block_size == limit_tokens + 1
            if not (full and self._all_kept(cache, keys) and self.dice.roll()):
                return match_keys(keys, limit_tokens)
            return Match(blocks=len(keys), host_blocks=0, latent_blocks=len(keys), keys=tuple(keys))

        def restore_one_less(sequence: Sequence) -> Match | None:
            found = restore(sequence)
            if found is None or sequence.generated or sequence.computed < sequence.prefill_target:
                return found
            sequence.computed -= 1
            scheduler.state_io.state.length[sequence.slot] -= 1
            return replace(found, blocks=found.blocks - 1)

        override(policy, "prefill_marks", prefill_marks)
        override(cache, "match", match)
        override(scheduler, "restore", restore_one_less)

    def _all_kept(self, cache: PrefixCache, keys: Items[bytes]) -> bool:
        """Whether the device holds every block's latents and the state after the last."""
        latents = all(cache.holds_on_device(Kind.LATENT, key) for key in keys)
        return latents and cache.holds_on_device(Kind.STATE, keys[-1])
