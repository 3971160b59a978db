"""How often the recall check fails a sound server, and finds one that loses needles: its sign tests on drawn documents.

python -m benchmarks.recall_power --runs 3000
"""

from __future__ import annotations

import argparse

import numpy as np

from harness.checks.recall.facts import ARMS
from harness.checks.recall.judge import ALARM_LEVEL, AT_ONCE_LEVEL
from harness.stats.tests import discordant_greater

NEEDLES = 3


def chances(rng: np.random.Generator, documents: int, rate: float, redrawn: float, lost: float) -> list[float]:
    """The p-value of each arm in one round.

    rate: of needles that come back. redrawn: share of documents whose answers an arm draws anew, all of them together.
    lost: share of documents of which an arm gives nothing back.
    """
    found = []
    for _ in ARMS:
        cold = rng.random((documents, NEEDLES)) < rate
        anew = rng.random((documents, NEEDLES)) < rate
        answered = np.where(rng.random((documents, 1)) < redrawn, anew, cold) & ~(rng.random((documents, 1)) < lost)
        balance = cold.sum(axis=1) - answered.sum(axis=1)
        found.append(discordant_greater(int((balance > 0).sum()), int((balance < 0).sum())))
    return found


def outcome(rng: np.random.Generator, documents: int, rate: float, redrawn: float, lost: float) -> str:
    """ "pass", "suspect" or "fail", as the judge would say after its one or two rounds."""
    first = chances(rng, documents, rate, redrawn, lost)
    if min(first) >= ALARM_LEVEL:
        return "pass"
    again = chances(rng, 2 * documents, rate, redrawn, lost)
    repeated = any(max(pair) < ALARM_LEVEL for pair in zip(first, again, strict=True))
    return "fail" if min(first) < AT_ONCE_LEVEL or repeated else "suspect"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3000)
    runs = parser.parse_args().runs
    rng = np.random.default_rng(0)
    print("documents  recall  redrawn  lost   fail     suspect")
    for documents in (16, 32):
        sound = [(rate, redrawn, 0.0) for rate in (0.95, 0.6, 0.3) for redrawn in (0.2, 1.0)]
        for rate, redrawn, lost in (*sound, (0.9, 0.1, 0.2), (0.9, 0.1, 0.4), (0.9, 0.1, 0.6)):
            said = [outcome(rng, documents, rate, redrawn, lost) for _ in range(runs if not lost else runs // 10)]
            shares = [said.count(each) / len(said) for each in ("fail", "suspect")]
            print(f"{documents:9}  {rate:6}  {redrawn:7}  {lost:4}  {shares[0]:.5f}  {shares[1]:.5f}")


if __name__ == "__main__":
    main()
