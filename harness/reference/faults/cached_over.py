"""K31: more is reported as cached than was."""

from __future__ import annotations

from harness.reference.cache.prefix import Match
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.sequence import Sequence


class CachedOver(Fault):
    """Answers and work are right; usage contradicts the time they took."""

    info = FaultInfo(
        code="K31",
        name="CACHED_OVERREPORT",
        modes=(
            Mode(
                name="latent",
                size="accounting",
                effect="the hit of the latents is reported, although the state made the engine compute again",
                trigger="a prefix whose latents are cached deeper than its state",
            ),
            Mode(
                name="retraction",
                size="accounting",
                effect="what is found again after a preemption is added",
                trigger="a preemption, which takes memory pressure",
            ),
            Mode(
                name="decode",
                size="accounting",
                effect="all of the prompt but one token is reported, as by the decode side of a split server",
                trigger="any request",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides noting what was found."""
        scheduler, size = engine.scheduler, engine.scheduler.limits.block_size
        count_first = scheduler.count_first

        def count_more(sequence: Sequence, match: Match | None, now_ns: int) -> None:
            before = sequence.cached_tokens
            count_first(sequence, match, now_ns)
            reported = self._reported(sequence, match, before, size)
            if reported != sequence.cached_tokens and self.dice.roll():
                sequence.cached_tokens = reported

        override(scheduler, "count_first", count_more)

    def _reported(self, sequence: Sequence, match: Match | None, before: int | None, size: int) -> int | None:
        if self.mode == "retraction":
            found = match.blocks * size if match is not None else 0
            return before + found if before is not None else sequence.cached_tokens
        if before is not None or match is None:
            return sequence.cached_tokens
        most = sequence.prompt_tokens - 1
        return most if self.mode == "decode" else min(match.latent_blocks * size, most // size * size)
