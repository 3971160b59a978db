"""Acceptance in one condition against another: hits against cold, and this run against one's own baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.checks.mtp.acceptance import Floats, paired_ratio, unpaired_ratio, with_steps
from harness.checks.mtp.facts import Row
from harness.checks.verdict import Evidence
from workloads.mtp import COLD, DEEP, HIT, LEFT_OUT, RETURNED

FEWEST_PAIRS = 8
# What drafts lack after a hit weighs most where most of the prompt was a hit.
MOST_OF_A_PROMPT = 0.7
# A hit that answers as the cold prompt did drafts the same tokens; between two runs, texts may part.
BENIGN_DROP_OF_HITS, BENIGN_DROP_OF_RUNS = 0.03, 0.10
# Hits must alarm twice; the same prompts in two runs once.
CONFIRMING_CONFIDENCE, CONFIDENCE_OF_RUNS = 0.99, 0.999
_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Drafts accepted per step in one condition over those in another.

    ratio: the estimate. highest: the upper end of what the requests allow, one-sided, at the test's confidence.
    pairs: prompts compared; paired: the same prompts on both sides. benign: the drop that is let go.
    """

    name: str
    ratio: float
    highest: float
    benign: float
    pairs: int
    paired: bool
    evidence: Evidence

    @property
    def dropped(self) -> bool:
        """Whether acceptance fell by more than is harmless, beyond doubt."""
        return self.pairs >= FEWEST_PAIRS and self.highest < 1 - self.benign

    @property
    def smallest_drop(self) -> float:
        """The smallest drop (a share) that would have been found: the harmless one and the width of the doubt."""
        return self.benign + max(0.0, self.highest - self.ratio)


def hits_against_cold(rows: Sequence[Row], share: float = 0.0) -> Contrast | None:
    """The same prompt cold and as a hit of at least `share` of it; None if no prompt was both."""
    pairs = [(hit, cold) for hit, cold in _with_their_cold(rows, HIT) if _cached_share(hit) >= share]
    name = "hits of most of a prompt against the same cold" if share else "hits against the same prompts cold"
    return _contrast(name, pairs, CONFIRMING_CONFIDENCE, BENIGN_DROP_OF_HITS) if pairs else None


def returns_against_cold(rows: Sequence[Row]) -> Contrast | None:
    """Hits behind a flood of the device against the same prompts cold; None if none was a hit."""
    pairs = list(_with_their_cold(rows, RETURNED))
    name = "hits behind a flood against the same prompts cold"
    return _contrast(name, pairs, CONFIRMING_CONFIDENCE, BENIGN_DROP_OF_HITS) if pairs else None


def _with_their_cold(rows: Sequence[Row], arm: str) -> Iterator[tuple[Row, Row]]:
    """Hits of one arm, each with the cold answer to its prompt."""
    cold = {row.pair: row for row in with_steps(rows) if row.arm in (COLD, DEEP)}
    for row in with_steps(rows):
        if row.arm == arm and row.pair in cold and _more_cached(row, cold[row.pair]):
            yield row, cold[row.pair]


def _cached_share(row: Row) -> float:
    return 0.0 if not row.prompt_tokens or row.cached_tokens is None else row.cached_tokens / row.prompt_tokens


def _more_cached(hit: Row, cold: Row) -> bool:
    cached = hit.cached_tokens
    return cached is not None and cached > (cold.cached_tokens if cold.cached_tokens is not None else 0)


def against_baseline(
    rows: Sequence[Row], baseline: Sequence[Row], confidence: float = CONFIDENCE_OF_RUNS
) -> Contrast | None:
    """The same prompts in an earlier run, else the same classes of content; None without anything in common."""
    theirs = {(row.prompt_hash, row.arm): row for row in with_steps(baseline)}
    mine = [row for row in with_steps(rows) if row.arm not in LEFT_OUT]
    known = [row for row in mine if row.prompt_hash is not None]
    pairs = [(row, theirs[row.prompt_hash, row.arm]) for row in known if (row.prompt_hash, row.arm) in theirs]
    name = "this run against the baseline"
    if len(pairs) >= FEWEST_PAIRS:
        return _contrast(name, pairs, confidence, BENIGN_DROP_OF_RUNS)
    others = [row for row in with_steps(baseline) if row.arm not in LEFT_OUT]
    if not mine or not others:
        return None
    ratios = unpaired_ratio(mine, others)
    evidence = Evidence(
        request_ids=tuple(row.request_id for row in mine[:_SHOWN]),
        text=f"{name}: {_in_words(ratios)}, over {len(mine)} requests here and {len(others)} there",
    )
    return Contrast(
        name=name,
        ratio=float(np.median(ratios)),
        highest=float(np.quantile(ratios, confidence)),
        benign=BENIGN_DROP_OF_RUNS,
        pairs=min(len(mine), len(others)),
        paired=False,
        evidence=evidence,
    )


def _contrast(name: str, pairs: Sequence[tuple[Row, Row]], confidence: float, benign: float) -> Contrast:
    ratios = paired_ratio(pairs)
    worst = sorted(pairs, key=lambda pair: _fall(*pair))[:_SHOWN]
    evidence = Evidence(
        request_ids=tuple(row.request_id for pair in worst for row in pair),
        text=f"{name}: {_in_words(ratios)}, over {len(pairs)} prompts; worst: " + "; ".join(_lines(worst[:3])),
        table={"prompt": [pair[0].pair for pair in worst], "accepted_per_step": [_both(*pair) for pair in worst]},
    )
    highest = float(np.quantile(ratios, confidence))
    return Contrast(
        name=name,
        ratio=float(np.median(ratios)),
        highest=highest,
        benign=benign,
        pairs=len(pairs),
        paired=True,
        evidence=evidence,
    )


def _in_words(ratios: Floats) -> str:
    low, high = np.quantile(ratios, [0.025, 0.975])
    return f"{np.median(ratios):.0%} of the drafts are accepted per step ({low:.0%} to {high:.0%})"


def _lines(pairs: Sequence[tuple[Row, Row]]) -> Iterator[str]:
    for mine, theirs in pairs:
        now, then = _both(mine, theirs)
        yield f"{mine.pair} {now:.2f} against {then:.2f}"


def _both(mine: Row, theirs: Row) -> list[float]:
    return [each.drafts.accepted / each.drafts.steps for each in (mine, theirs) if each.drafts is not None]


def _fall(mine: Row, theirs: Row) -> float:
    now, then = _both(mine, theirs)
    return now - then
