"""K31: more is reported as cached than was."""

from __future__ import annotations

from harness.reference.cache.prefix import Match
from harness.reference.faults.fault import Fault, FaultInfo, Mode
from harness.reference.faults.reported_cached import report_cached
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
        """Overrides reporting."""
        size = engine.scheduler.limits.block_size

        def report(sequence: Sequence, match: Match | None, before: int | None) -> int | None:
            right = sequence.cached_tokens if before is None else before
            more = self._reported(sequence, match, before, size)
            return more if more is not None and more != right and self.dice.roll() else None

        report_cached(engine, report)

    def _reported(self, sequence: Sequence, match: Match | None, before: int | None, size: int) -> int | None:
        """What is told, None when the mode has nothing to add."""
        if match is None or (before is not None) != (self.mode == "retraction"):
            return None
        if before is not None:
            return before + match.blocks * size
        most = sequence.prompt_tokens - 1
        return most if self.mode == "decode" else min(match.latent_blocks * size, most // size * size)
