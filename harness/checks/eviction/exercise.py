"""Which arms were really exercised: one that was asked but not served from the cache, or never went cold, was not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.checks.eviction.arms import (
    AGAIN,
    FORKED,
    HIT,
    PARTIAL,
    RETURNED,
    SENTINEL,
    SHORT,
    TOGETHER,
    PromptArms,
)

FEWEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """prompts: asked in the first look, sentinels and short ones left out. hits: of those, that were hit.
    returned_cold / returned_warm: returned after an eviction and found gone / still there (or brought back).
    returned_partial: found with their beginning alone, after an eviction that was to leave it. together / forked: hit
    after other sessions had brought them back, several at once / and gone on. sentinels: probes after a flood;
    sentinels_cold: gone ones.
    """

    prompts: int
    hits: int
    returned_cold: int
    returned_warm: int
    returned_partial: int
    together: int
    forked: int
    sentinels: int
    sentinels_cold: int

    @property
    def never_cold(self) -> bool:
        """Whether eviction was tried and nothing was ever found gone."""
        return self.returned_cold + self.sentinels_cold == 0 and self.returned_warm + self.sentinels > 0

    def missing(self) -> tuple[str, ...]:
        """What a verdict would need and did not get, in words."""
        found = []
        if self.hits < FEWEST:
            found.append(f"only {self.hits} of {self.prompts} prompts were hit, {FEWEST} are needed (several caches?)")
        if self.returned_cold + self.returned_warm < FEWEST:
            found.append(f"only {self.returned_cold + self.returned_warm} prompts returned after an eviction")
        elif self.never_cold:
            found.append("nothing was ever evicted: the sentinel and every returned prompt stayed cached")
        return tuple(found)


def exercise(prompts: Sequence[PromptArms]) -> Exercise:
    """Count what the first look exercised."""
    first = [prompt for prompt in prompts if prompt.round_index == 0]
    whole = [prompt for prompt in first if not prompt.of(SENTINEL) and not prompt.of(SHORT)]
    returned = [shot for prompt in first for arm in (RETURNED, AGAIN) for shot in prompt.of(arm)[:1]]
    sentinels = [shot for prompt in first for shot in prompt.of(SENTINEL)]
    return Exercise(
        prompts=len(whole),
        hits=sum(any(shot.warm for shot in prompt.of(HIT)) for prompt in whole),
        returned_cold=sum(shot.warm is False for shot in returned),
        returned_warm=sum(shot.warm is True for shot in returned),
        returned_partial=sum(_in_part(prompt) for prompt in first),
        together=sum(any(shot.warm for shot in prompt.of(TOGETHER)) for prompt in first),
        forked=sum(any(shot.warm for shot in prompt.of(FORKED)) for prompt in first),
        sentinels=len(sentinels),
        sentinels_cold=sum(shot.warm is False for shot in sentinels),
    )


def _in_part(prompt: PromptArms) -> bool:
    """Whether less came back than a hit resumes from, and more than nothing."""
    whole = max((shot.cached or 0 for shot in prompt.of(HIT)), default=0)
    return any(0 < (shot.cached or 0) < whole for shot in prompt.of(PARTIAL))
