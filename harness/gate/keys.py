"""Every key that a profile may hold, and what may stand there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from harness.checks.check import PROMPTS_OF_BUDGET
from harness.checks.registry import CHECKS
from harness.checks.verdict import Status
from harness.gate.features import FEATURES
from harness.metrics import MetricOptions, summarise_cell
from workloads.registry import FAMILIES

Kind = Literal["text", "whole", "number", "flag", "date", "texts", "wholes", "numbers", "tables"]
HARNESS_ROWS = ("heartbeat between phases", "soundness")
WAIVABLE = (Status.FAIL.value, Status.SUSPECT.value, Status.INCONCLUSIVE.value)
CACHE_MODES = ("cold", "warm", "keep")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What one key takes. choices: None for anything of its kind. least: the smallest number. needed: must be there.

    above: what a number has to exceed. tables: of a key that holds tables, what those hold.
    """

    kind: Kind
    choices: tuple[str, ...] | None = None
    least: float | None = None
    above: float | None = None
    needed: bool = False
    tables: Mapping[str, Key] | None = None


def _metric_names() -> tuple[str, ...]:
    """The names of summary.json; percentiles other than these are taken too."""
    empty = summarise_cell([], None, MetricOptions(goodput={"ttft": 1.0}), cell="none")
    return (*(metric.name for metric in empty.metrics), "correct_goodput")


METRIC_NAMES = _metric_names()
_BUDGETS = tuple(PROMPTS_OF_BUDGET)
_NUMBER, _TEXT, _FLAG = Key(kind="number"), Key(kind="text"), Key(kind="flag")
_COUNT = Key(kind="whole", least=1)

LIMIT: Mapping[str, Key] = {"detail": Key(kind="text", needed=True), "min": _NUMBER, "max": _NUMBER}
CHECK: Mapping[str, Key] = {
    "name": Key(kind="text", choices=tuple(CHECKS), needed=True),
    "budget": Key(kind="text", choices=_BUDGETS),
    "required": _FLAG,
    "blind_below_nats": Key(kind="number", above=0),
    "limit": Key(kind="tables", tables=LIMIT),
}
SLO: Mapping[str, Key] = {
    "metric": Key(kind="text", needed=True),
    "min": _NUMBER,
    "max": _NUMBER,
    "min_of_baseline": Key(kind="number", above=0),
    "max_of_baseline": Key(kind="number", above=0),
}
# Keys of an objective that are settings of its cells, with the field of SweepOptions that each one is.
SWEEP_FIELDS: Mapping[str, str] = {
    "workload": "dataset_name",
    "concurrency": "concurrency",
    "request_rate": "request_rates",
    "num_prompts": "num_prompts",
    "duration_s": "duration_s",
    "num_warmups": "num_warmups",
    "context": "contexts",
    "input_len": "input_tokens",
    "output_len": "output_tokens",
    "turns": "turns",
    "think_time_s": "think_time_s",
    "cache": "cache",
    "endpoint_type": "endpoint_type",
}
OBJECTIVE: Mapping[str, Key] = {
    "name": Key(kind="text", needed=True),
    "workload": Key(kind="text", choices=tuple(FAMILIES)),
    "concurrency": Key(kind="wholes", least=1),
    "request_rate": Key(kind="numbers", above=0),
    "num_prompts": _COUNT,
    "duration_s": Key(kind="number", above=0),
    "num_warmups": Key(kind="whole", least=0),
    "context": Key(kind="wholes", least=1),
    "input_len": _COUNT,
    "output_len": _COUNT,
    "turns": _COUNT,
    "think_time_s": Key(kind="number", least=0),
    "cache": Key(kind="text", choices=CACHE_MODES),
    "endpoint_type": Key(kind="text", choices=("chat", "completions")),
    "max_failed_share": Key(kind="number", least=0),
    "slo": Key(kind="tables", tables=SLO, needed=True),
}
WAIVER: Mapping[str, Key] = {
    "check": Key(kind="text", needed=True),
    "reason": Key(kind="text", needed=True),
    "expires": Key(kind="date", needed=True),
    "status": Key(kind="texts", choices=WAIVABLE),
    "containing": _TEXT,
}
PROFILE: Mapping[str, Key] = {
    "name": _TEXT,
    "description": _TEXT,
    "budget": Key(kind="text", choices=_BUDGETS),
    "max_tokens_total": _COUNT,
    "max_minutes": Key(kind="number", above=0),
    "fail_fast": _FLAG,
    "heartbeat": _FLAG,
    "deterministic": _FLAG,
    "prefill_chunk": _COUNT,
    "expect_acceptance": Key(kind="number", least=1),
    "context": Key(kind="whole", least=256),
    "price_input": Key(kind="number", least=0),
    "price_cached_input": Key(kind="number", least=0),
    "price_output": Key(kind="number", least=0),
    "goodput": _TEXT,
    "require": Key(kind="texts", choices=tuple(FEATURES)),
    "check": Key(kind="tables", tables=CHECK),
    "objective": Key(kind="tables", tables=OBJECTIVE),
    "waiver": Key(kind="tables", tables=WAIVER),
}
