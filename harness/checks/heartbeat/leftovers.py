"""Whether a request leaves something behind: short prompts computed anew, alone, again and again, against long ones.

What a slot kept of its last tenant moves the first tokens after it most and is forgotten over a long prompt. Noise is
the same for both.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from harness.checks.heartbeat.beats import SMALLEST_CHANGE, distance, is_ok
from harness.checks.history import Answer
from harness.checks.verdict import Evidence
from workloads.heartbeat import LOAD, LONG_TOKENS, SHORT_TOKENS

FEWEST_PROBES = 2
FEWEST_BATTERIES = 2
LONG_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One probe of one battery: nats RMS between the two of its computed answers that are furthest apart."""

    phase: str
    probe: str
    tokens: int
    nats: float
    answers: tuple[Answer, ...]

    def evidence(self) -> Evidence:
        """The answers to this probe."""
        return Evidence(
            request_ids=tuple(answer.record.invoke.request_id for answer in self.answers),
            text=f"probe {self.probe} {self.phase} load, {self.tokens} tokens computed anew: {self.nats:.2f} nats",
            table={"texts": [answer.record.complete.text for answer in self.answers]},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """unsteady: short probes that part, of batteries that have several. long_nats: the median of long ones."""

    unsteady: tuple[Spread, ...] = ()
    long_nats: float | None = None

    @property
    def batteries(self) -> int:
        """In how many batteries short probes part."""
        return len({each.phase for each in self.unsteady})

    @property
    def certain(self) -> bool:
        """Whether short prompts part again and again, and long ones do not."""
        if self.long_nats is None or self.batteries < FEWEST_BATTERIES:
            return False
        return self.long_nats <= LONG_SHARE * median(each.nats for each in self.unsteady)


def leftovers(phases: Mapping[str, Sequence[Answer]]) -> Leftovers:
    """Over every battery; probes without repeats that were all computed are left out."""
    spreads = [each for phase, answers in phases.items() if phase != LOAD for each in _spreads(phase, answers)]
    long = [each.nats for each in spreads if each.tokens >= LONG_TOKENS]
    parted = [each for each in spreads if each.tokens <= SHORT_TOKENS and each.nats > SMALLEST_CHANGE]
    counts = {phase: len({each.probe for each in parted if each.phase == phase}) for phase in phases}
    return Leftovers(
        unsteady=tuple(each for each in parted if counts[each.phase] >= FEWEST_PROBES),
        long_nats=median(long) if long else None,
    )


def _spreads(phase: str, answers: Sequence[Answer]) -> list[Spread]:
    groups: dict[tuple[str, bool], list[Answer]] = defaultdict(list)
    for answer in answers:
        labels = answer.record.invoke.labels
        if is_ok(answer) and _computed(answer):
            groups[str(labels.get("probe")), labels.get("salted") is True].append(answer)
    found = []
    for (probe, _), group in groups.items():
        gaps = [gap for one, other in combinations(group, 2) if (gap := distance(one, other)) is not None]
        tokens = group[0].record.invoke.expected_prompt_tokens
        if gaps and tokens is not None and not math.isinf(max(gaps)):
            found.append(Spread(phase=phase, probe=probe, tokens=tokens, nats=max(gaps), answers=tuple(group)))
    return found


def _computed(answer: Answer) -> bool:
    usage = answer.record.complete.usage
    return usage is not None and usage.cached_tokens == 0
