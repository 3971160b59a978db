"""Prices read from costs: a least-squares fit over fresh, cached and output tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.checks.billing.facts import TOKENS_OF_PRICE, Row

FEWEST_ROWS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Prices of a million tokens as the costs say, and the largest share by which a cost differs from them."""

    provider: str
    input: float
    cached_input: float
    output: float
    worst_share: float
    worst: Row


def fitted(rows: Sequence[Row]) -> list[Fitted]:
    """One fit for each provider that answered often enough, with and without cached tokens."""
    by_provider: dict[str, list[Row]] = {}
    for row in rows:
        if row.counted and row.cost is not None and row.cached is not None:
            by_provider.setdefault(row.provider, []).append(row)
    found = [_fit(provider, same) for provider, same in by_provider.items()]
    return [each for each in found if each is not None]


def _fit(provider: str, rows: Sequence[Row]) -> Fitted | None:
    counts = np.array([_counts(row) for row in rows], dtype=np.float64)
    if len(rows) < FEWEST_ROWS or np.linalg.matrix_rank(counts) < counts.shape[1]:
        return None
    costs = np.array([row.cost for row in rows], dtype=np.float64)
    prices, *_ = np.linalg.lstsq(counts, costs, rcond=None)
    shares = np.abs(counts @ prices - costs) / np.maximum(costs, np.finfo(np.float64).tiny)
    fresh, cached, output = (float(price) * TOKENS_OF_PRICE for price in prices)
    worst = int(np.argmax(shares))
    return Fitted(
        provider=provider, input=fresh, cached_input=cached, output=output, worst_share=float(shares[worst]),
        worst=rows[worst],
    )  # fmt: skip


def _counts(row: Row) -> tuple[int, int, int]:
    assert row.prompt_tokens is not None and row.cached is not None and row.completion_tokens is not None
    return row.prompt_tokens - row.cached, row.cached, row.completion_tokens
