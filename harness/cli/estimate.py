"""What a check will cost: requests, tokens, and minutes at the speed its endpoint just showed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.checks.check import Check
from harness.clock import NS_PER_S
from harness.drive.check_history import rounds_of
from harness.records import Outcome, Record
from harness.store import RunFolder, read_cell
from workloads import plan_cost
from workloads.capabilities import NAME as CAPABILITIES
from workloads.plan import Generator

SECONDS_PER_MINUTE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Tokens a second of one request alone; None if it could not be seen."""

    prompt_tokens_per_s: float | None
    output_tokens_per_s: float | None

    def minutes(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """As long as it takes with one request after the other and no cache; None without both rates."""
        if self.prompt_tokens_per_s is None or self.output_tokens_per_s is None:
            return None
        seconds = prompt_tokens / self.prompt_tokens_per_s + output_tokens / self.output_tokens_per_s
        return seconds / SECONDS_PER_MINUTE


def measured_rates(run: RunFolder) -> Rates:
    """The slowest first sight of a prompt and the slowest decoding among the capability round's streamed answers."""
    records = [record for cell in rounds_of(run, CAPABILITIES) for record in read_cell(run, cell).records]
    ok = [record for record in records if record.complete.outcome is Outcome.OK]
    first_sights = [rate for record in ok if record.invoke.key == "sighting-1" if (rate := _prompt_rate(record))]
    decoding = [rate for record in ok if (rate := _output_rate(record))]
    return Rates(prompt_tokens_per_s=min(first_sights, default=None), output_tokens_per_s=min(decoding, default=None))


def _prompt_rate(record: Record) -> float | None:
    done = record.complete
    length = record.invoke.expected_prompt_tokens if done.usage is None else done.usage.prompt_tokens
    if length is None or done.first_token_ns is None or done.sent_ns is None or done.first_token_ns <= done.sent_ns:
        return None
    return length * NS_PER_S / (done.first_token_ns - done.sent_ns)


def _output_rate(record: Record) -> float | None:
    done = record.complete
    if done.output_tokens is None or done.first_token_ns is None or done.last_token_ns is None:
        return None
    first = 1 if done.first_event_tokens is None else done.first_event_tokens
    if done.last_token_ns <= done.first_token_ns or done.output_tokens <= first:
        return None
    return (done.output_tokens - first) * NS_PER_S / (done.last_token_ns - done.first_token_ns)


def cost_line(check: Check, generator: Generator[Any], rates: Rates | None) -> str:
    """The cost of a check's first round in words; a plan that reacts may take another turn."""
    cost = plan_cost(generator, imagine=check.imagine)
    line = (
        f"cost: {check.name}: about {cost.requests + cost.warmup_requests} requests,"
        f" {cost.prompt_tokens:,} prompt tokens and at most {cost.output_tokens:,} output tokens"
    )
    minutes = None if rates is None else rates.minutes(cost.prompt_tokens, cost.output_tokens)
    if minutes is not None:
        line += f", {max(0.1, minutes):.1f} minutes without any help of the cache"
    return line + "; an alarm asks for another round"
