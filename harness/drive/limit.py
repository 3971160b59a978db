"""The search for the largest load that still meets the objectives: bracketing, bisection, confirmation. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

FACTOR = 2.0
TOLERANCE = 0.05
CONFIRMATIONS = 3
ENOUGH_GAIN = 0.05
IDLE_DOUBLINGS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One measured cell. met: its objectives, None where none were set. throughput: output tokens a second."""

    load: float
    met: bool | None
    throughput: float
    confirms: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSearch:
    """What to measure next, from what was measured.

    start: the first load. highest: no load above it. whole: loads are whole numbers (concurrency). objectives: look for
    the largest load that meets them; without, loads are doubled until throughput has stopped growing (the knee).
    """

    start: float
    highest: float
    whole: bool
    objectives: bool

    def next_load(self, trials: Sequence[Trial]) -> tuple[float, bool] | None:
        """The next load and whether it confirms an earlier one; None when the search has ended."""
        if not trials:
            return self.start, False
        if not self.objectives:
            return self._next_of_knee(trials)
        met, failed = self._bounds(trials)
        if met is None:
            return self._below(failed)
        if failed is None:
            if met >= self.highest:
                return self._confirmation(trials, met)
            return min(self._rounded(met * FACTOR), self.highest), False
        middle = self._rounded((met + failed) / 2)
        if failed - met > max(1.0 if self.whole else 0.0, TOLERANCE * met) and met < middle < failed:
            return middle, False
        return self._confirmation(trials, met)

    def limit(self, trials: Sequence[Trial]) -> float | None:
        """The largest confirmed load that met the objectives; None if there is none."""
        confirmed = [trial.load for trial in trials if trial.confirms and trial.met]
        met, _ = self._bounds(trials)
        return met if met is not None and met in confirmed else None

    def knee(self, trials: Sequence[Trial]) -> float | None:
        """The least load from which doubling it brought less than ENOUGH_GAIN more; None if throughput kept growing."""
        ordered = sorted({trial.load: trial.throughput for trial in trials}.items())
        for (load, before), (_, after) in pairwise(ordered):
            if after < (1 + ENOUGH_GAIN) * before:
                return load
        return None

    def _bounds(self, trials: Sequence[Trial]) -> tuple[float | None, float | None]:
        """The largest load that met and the smallest that failed; a load that failed once has failed."""
        failed = min((trial.load for trial in trials if not trial.met), default=None)
        met = [trial.load for trial in trials if trial.met and (failed is None or trial.load < failed)]
        return max(met, default=None), failed

    def _below(self, failed: float | None) -> tuple[float, bool] | None:
        assert failed is not None, "there is a trial, and it did not meet"
        lower = self._rounded(failed / FACTOR)
        least = 1.0 if self.whole else self.start / 64
        return (lower, False) if least <= lower < failed else None

    def _confirmation(self, trials: Sequence[Trial], met: float) -> tuple[float, bool] | None:
        done = sum(trial.confirms for trial in trials)
        confirmed = any(trial.confirms and trial.load == met for trial in trials)
        return None if confirmed or done >= CONFIRMATIONS else (met, True)

    def _next_of_knee(self, trials: Sequence[Trial]) -> tuple[float, bool] | None:
        best, idle = 0.0, 0
        for trial in trials:
            grew = trial.throughput > (1 + ENOUGH_GAIN) * best
            best, idle = max(best, trial.throughput), 0 if grew else idle + 1
        load = trials[-1].load
        if idle >= IDLE_DOUBLINGS or load >= self.highest:
            return None
        return min(self._rounded(load * FACTOR), self.highest), False

    def _rounded(self, load: float) -> float:
        return float(round(load)) if self.whole else load
