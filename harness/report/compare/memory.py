"""What each side's sequences take in memory: computed from its config, and measured from the server's own gauge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.endpoint.counters import engine_of_counters, total
from harness.memory.measured import read_vllm
from harness.memory.sequence import Setting, kv_bytes_per_token, sequence_bytes, snapshot_bytes
from harness.memory.shape import ModelShape
from harness.metrics.tokens import input_tokens, output_tokens
from harness.records import CounterSample, Record
from harness.report.compare.sides import Round, Side
from harness.stats.bootstrap import Floats

FEWEST_SAMPLES = 8
REWEIGHTINGS = 60
SMALLEST_RESIDUAL = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryModelOf:
    """The arithmetic of one side. source: the preset or file that was read."""

    letter: str
    shape: ModelShape
    setting: Setting
    source: str

    @property
    def token_bytes(self) -> int:
        """Bytes by which a sequence grows with each token."""
        return kv_bytes_per_token(self.shape, self.setting)

    @property
    def fixed_bytes(self) -> int:
        """Bytes of recurrent and convolution state of a running sequence, draft states included."""
        return (1 + self.setting.draft_states) * snapshot_bytes(self.shape, self.setting)

    def total_bytes(self, context_tokens: int) -> int:
        """Bytes of a sequence of that length."""
        return sequence_bytes(self.shape, self.setting, context_tokens).total_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMemory:
    """What running sequences held by the server's own gauge: fixed_bytes each, and token_bytes for each token.

    samples: moments the two were fitted from. fit_error: median residual as a share of the largest value.
    """

    letter: str
    fixed_bytes: float
    token_bytes: float
    samples: int
    fit_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """The length from which the other side's sequences take less memory; None: never, or at every length."""

    tokens: float | None
    text: str


def break_even(first: MemoryModelOf | HeldMemory, other: MemoryModelOf | HeldMemory) -> BreakEven:
    """The length at which a sequence weighs the same on both sides: difference of states / difference per token."""
    fixed = other.fixed_bytes - first.fixed_bytes
    growth = first.token_bytes - other.token_bytes
    if growth == 0 or fixed / growth <= 0:
        lighter = other.letter if fixed < 0 or growth > 0 else first.letter
        return BreakEven(tokens=None, text=f"{lighter} takes less at every length")
    tokens = fixed / growth
    lighter = other.letter if growth > 0 else first.letter
    return BreakEven(tokens=tokens, text=f"level at {tokens:,.0f} tokens, {lighter} takes less beyond")


def held_memory(side: Side) -> HeldMemory | None:
    """Fit bytes held = sequences x fixed + tokens x growth over the samples of the gauge while requests ran.

    Tokens are rounded up to the server's blocks. None unless the server gives both the share of its cache in use and
    the cache's size in bytes, at enough moments. Blocks that sequences share are counted once by some servers, which
    then shows as less growth.
    """
    rows: list[tuple[float, float, float]] = []
    for each in (each for rounds in side.rounds.values() for each in rounds):
        rows += _moments(each)
    if len(rows) < FEWEST_SAMPLES:
        return None
    counts = np.array([row[:2] for row in rows])
    held_bytes = np.array([row[2] for row in rows])
    if np.linalg.matrix_rank(counts) < 2 or len({round(row[1] / row[0]) for row in rows}) < 2:
        return None
    fitted = least_absolute(counts, held_bytes)
    error = float(np.median(np.abs(counts @ fitted - held_bytes)) / held_bytes.max())
    fixed, growth = fitted.tolist()
    return HeldMemory(letter=side.letter, fixed_bytes=fixed, token_bytes=growth, samples=len(rows), fit_error=error)


def least_absolute(known: Floats, wanted: Floats) -> Floats:
    """Coefficients with the smallest sum of absolute residuals, by reweighted least squares.

    Most moments fit exactly; a few lie at a block's edge or amid a change, and must not pull the rest.
    """
    weights = np.ones(len(wanted))
    fitted: Floats = np.zeros(known.shape[1])
    for _ in range(REWEIGHTINGS):
        root = np.sqrt(weights)
        fitted = np.asarray(np.linalg.lstsq(known * root[:, None], wanted * root, rcond=None)[0], dtype=np.float64)
        weights = 1.0 / np.maximum(np.abs(known @ fitted - wanted), SMALLEST_RESIDUAL * wanted.max())
    return fitted


def _moments(each: Round) -> list[tuple[float, float, float]]:
    """(sequences running, tokens they hold, bytes in use) at each sample where the server and we agree on the count."""
    info = each.history.info
    samples = () if info is None else info.counters
    found = []
    for sample in samples:
        held, block_tokens = _held_bytes(sample), _block_tokens(sample)
        running = [record for record in each.history.records if _runs_at(record, sample.at_ns)]
        if held and running and _running(sample) == len(running):
            tokens = [_tokens_at(record, sample.at_ns) for record in running]
            known = [math.ceil(count / block_tokens) * block_tokens for count in tokens if count is not None]
            if len(known) == len(running):
                found.append((float(len(running)), float(sum(known)), held))
    return found


def _held_bytes(sample: CounterSample) -> float | None:
    reported = read_vllm(sample.values, None)
    share = total(sample, "vllm", "kv_usage")
    if reported is None or reported.cache_bytes is None or share is None:
        return None
    return share * reported.cache_bytes


def _block_tokens(sample: CounterSample) -> int:
    reported = read_vllm(sample.values, None)
    return 1 if reported is None or reported.block_tokens is None else reported.block_tokens


def _running(sample: CounterSample) -> float | None:
    engine = engine_of_counters(sample.values)
    return None if engine is None else total(sample, engine, "running")


def _runs_at(record: Record, at_ns: int) -> bool:
    """Whether a request was past its prefill and not yet ended, so that its tokens are known."""
    first, last = record.complete.first_token_ns, record.complete.last_token_ns
    return first is not None and last is not None and first < at_ns < last


def _tokens_at(record: Record, at_ns: int) -> float | None:
    sent, made = input_tokens(record), output_tokens(record)
    first, last = record.complete.first_token_ns, record.complete.last_token_ns
    if sent is None or made is None or first is None or last is None:
        return None
    return sent + made * (at_ns - first) / (last - first)


def held_at_lengths(sides: Sequence[Side]) -> dict[str, HeldMemory]:
    """The measured memory of every side that reports it, by letter."""
    found = {side.letter: held_memory(side) for side in sides if side.run is not None}
    return {letter: held for letter, held in found.items() if held is not None}
