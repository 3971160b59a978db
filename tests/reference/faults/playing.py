"""Scenarios on small engines that compute the same bits however work is cut, healthy and with a fault."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.fault_scenarios import SCENARIOS
from benchmarks.fault_traffic import Answer, Player
from harness.reference.faults.fault import Fault
from harness.reference.faults.spec import parse_fault
from tests.reference.driving import tiny_engine, tiny_model, tiny_options

VICTIM_TOKENS = 24


@dataclass(frozen=True)
class Played:
    """The victims' answers, and the fault with its counts."""

    victims: list[Answer]
    fault: Fault | None

    @property
    def tokens(self) -> list[list[int]]:
        return [answer.tokens for answer in self.victims]

    @property
    def accepted(self) -> list[int]:
        return [answer.usage.speculation.accepted for answer in self.victims if answer.usage is not None]

    @property
    def tables(self) -> list[np.ndarray]:
        """Log-probabilities of each victim, ``[tokens, vocab]``."""
        return [np.array([[value for _, value in sorted(row.top)] for row in a.logprobs]) for a in self.victims]


def material(name: str, count: int) -> list[int]:
    vocab = tiny_model().config.vocab_size
    return np.random.default_rng(list(name.encode())).integers(1, vocab, 600)[:count].tolist()


def play(
    scenario: str, fault: str | None = None, follow: list[list[int]] | None = None, *, also: str | None = None
) -> Played:
    """Plays a scenario on a new engine; ``fault`` is the one whose counts are wanted."""
    model = tiny_model("hybrid", "deterministic")
    options = SCENARIOS[scenario].settings(tiny_options(deterministic=True, max_model_len=192), model.config)
    engine = tiny_engine(options)
    planted = [parse_fault(text).build() for text in (fault, also) if text is not None]
    for each in planted:
        each.plant(engine)
    player = Player(engine, options, model.config, material, victim_tokens=VICTIM_TOKENS, follow=follow)
    SCENARIOS[scenario].play(player)
    return Played(player.victims, planted[0] if planted else None)


@cache
def healthy(scenario: str) -> Played:
    return play(scenario)


def largest_change(one: Played, other: Played) -> float:
    """Largest difference of two plays' log-probabilities; NaN counts as infinite."""
    gaps = [np.abs(a - b).max() for a, b in zip(one.tables, other.tables, strict=True)]
    return float(np.nan_to_num(max(gaps), nan=np.inf)) if not np.isnan(gaps).any() else float("inf")
