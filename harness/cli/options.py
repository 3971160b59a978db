"""The options of a sweep: what was typed, checked once, and kept in run.json so that a run can be resumed."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workloads.plan import Json
from workloads.registry import refuse_exact_lengths

CACHE_MODES = ("cold", "warm", "keep")
TRACE = "trace"
MIX = "mix"
AUTO = "auto"
RAY = "ray"
# One process carries about so many streams before its own load shows in their times.
STREAMS_PER_WORKER = 256
# Measured requests of an open load without --num-prompts or --duration.
OPEN_LOAD_REQUESTS = 128
DEFAULT_PERCENTILES = (50.0, 90.0, 99.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """Everything that decides what a sweep asks; neither keys nor header values are part of it.

    num_prompts: measured requests per cell; None means four per slot of the highest level, or endless under duration_s.
    sampling: body fields of every request. max_tokens_total: cap on prompt and output tokens of the whole run.
    contexts: prompt lengths, each with every load level. request_rates: of open loads, "4" or "inf", in place of
    concurrency; burstiness likewise. in_flight_cap: most requests in flight under an open load. ramp: shape, end_per_s
    and seconds. dataset_path: a trace or dataset to send; dataset_format None means it is guessed. timed, speed: a
    trace's own times, sped up. mix: classes with name, workload, weight and sizes. num_runs: rounds of every cell.
    auto: loads are searched for, up to auto_max. workers: processes that send, or "auto",
    on worker_engine "local" or "ray". preset: the published
    deployment whose sampling was taken. retries: how often a 429 is waited out. metrics_urls: pages of counters in
    place of the server's own.
    """

    concurrency: tuple[int, ...]
    dataset_name: str
    endpoint_type: str = "chat"
    model: str | None = None
    num_prompts: int | None = None
    duration_s: float | None = None
    num_warmups: int = 4
    seed: int = 0
    cache: str = "cold"
    sampling: Mapping[str, Json] = field(default_factory=dict)
    input_tokens: int | None = None
    output_tokens: int | None = None
    turns: int | None = None
    think_time_s: float = 0.0
    goodput: Mapping[str, float] = field(default_factory=dict)
    metric_percentiles: tuple[float, ...] = DEFAULT_PERCENTILES
    max_tokens_total: int | None = None
    tokenizer: str | None = None
    contexts: tuple[int, ...] = ()
    request_rates: tuple[str, ...] = ()
    burstiness: str = "1"
    in_flight_cap: int | None = None
    ramp: Mapping[str, Json] | None = None
    dataset_path: str | None = None
    dataset_format: str | None = None
    skip_bad_rows: bool = False
    trace_seconds: float | None = None
    timed: bool = False
    speed: float = 1.0
    exact_lengths: bool = False
    recorded_think: bool = False
    sub_agents: float = 0.0
    compaction: float | None = None
    whole_sessions: bool = False
    live: bool = False
    profile: str | None = None
    mix: tuple[Mapping[str, Json], ...] = ()
    num_runs: int = 1
    auto: bool = False
    workers: str = "1"
    worker_engine: str = "local"
    ray_address: str | None = None
    auto_max: float = 256
    cold_by: str = "nonce"
    allow_l3_clear: bool = False
    preset: str | None = None
    retries: int = 0
    metrics_urls: tuple[str, ...] = ()
    connect_timeout_s: float = 10.0
    first_byte_timeout_s: float = 600.0
    stall_timeout_s: float = 120.0
    request_timeout_s: float = 3600.0

    def __post_init__(self) -> None:
        if not self.concurrency or min(self.concurrency) < 1:
            raise ValueError("--concurrency needs one or more numbers of at least 1, such as 1,8,32")
        if len(set(self.concurrency)) != len(self.concurrency):
            raise ValueError("--concurrency names a level twice; each level is one cell")
        if self.num_prompts is not None and self.num_prompts < 1:
            raise ValueError("--num-prompts must be at least 1")
        if self.duration_s is not None and self.duration_s <= 0:
            raise ValueError("--duration must be above 0 seconds")
        if self.cache not in CACHE_MODES:
            raise ValueError(f"--cache must be one of {', '.join(CACHE_MODES)}")
        if self.exact_lengths:
            self._check_lengths()
        if self.workers != AUTO and not (self.workers.isdigit() and int(self.workers) >= 1):
            raise ValueError(f"--workers: {self.workers!r} is neither a number of processes nor auto")
        if self.ray_address is not None and self.worker_engine != RAY:
            raise ValueError("--ray-address belongs to --engine ray")
        if self.allow_l3_clear and self.cold_by != "flush":
            raise ValueError("--allow-l3-clear belongs to --cold-by flush")
        if self.auto and self.cold_by != "nonce":
            raise ValueError("--auto keeps its cells apart by a nonce; leave --cold-by out")
        self._check_loads()

    def _check_lengths(self) -> None:
        if self.dataset_name == MIX:
            raise ValueError("--exact-lengths: in a mix every class has lengths of its own, which are aimed at")
        try:
            refuse_exact_lengths(self.dataset_name)
        except ValueError as error:
            raise ValueError(f"--exact-lengths: {error}") from None

    def _check_loads(self) -> None:
        if len(set(self.contexts)) != len(self.contexts) or len(set(self.request_rates)) != len(self.request_rates):
            raise ValueError("--context or --request-rate names a value twice; each is a cell of its own")
        if self.contexts and self.input_tokens is not None:
            raise ValueError("--context is a list of --input-len; give one of them")
        if self.timed and (self.request_rates or self.dataset_path is None):
            raise ValueError("--arrivals trace needs a --dataset-path with times, and no --request-rate")
        if (self.dataset_path is None) != (self.dataset_name != TRACE):
            raise ValueError("a trace or dataset needs its file: --dataset-path")
        if self.num_runs < 1 or not self.speed > 0:
            raise ValueError("--num-runs must be at least 1, and --speed above 0")
        if self.auto and (self.timed or len(self.contexts) > 1 or self.num_runs > 1 or self.dataset_name == TRACE):
            raise ValueError("--auto searches over one load: no trace, one --context, one run")
        if self.auto and (len(self.request_rates) > 1 or "inf" in self.request_rates):
            raise ValueError("--auto starts from one finite --request-rate")
        for text in (*self.request_rates, self.burstiness):
            parse_positive(text, "--request-rate and --burstiness")

    @property
    def open_load(self) -> bool:
        """Whether requests leave when they are due, whatever came back."""
        return bool(self.request_rates) or self.timed

    @property
    def worker_count(self) -> int:
        """Processes that send; 1 means the main one sends itself."""
        if self.workers != AUTO:
            return int(self.workers)
        streams = max(self.concurrency) if not self.open_load else STREAMS_PER_WORKER
        return max(1, min(os.cpu_count() or 1, -(-streams // STREAMS_PER_WORKER)))

    @property
    def requests_per_cell(self) -> int | None:
        """Measured requests of a cell; None means until the duration is over."""
        if self.num_prompts is not None:
            return self.num_prompts
        if self.duration_s is not None or self.dataset_name == TRACE:
            return None
        return OPEN_LOAD_REQUESTS if self.open_load else 4 * max(self.concurrency)

    def as_json(self) -> dict[str, Json]:
        """Plain data for run.json; `from_json` reads it back."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> SweepOptions:
        """Read what `as_json` wrote; fields this version does not know are ignored, absent ones take their default."""
        known = {name: value for name, value in data.items() if name in cls.__slots__}
        for name in ("concurrency", "metric_percentiles", "contexts", "request_rates", "mix", "metrics_urls"):
            value = known.get(name)
            if isinstance(value, Sequence):
                known[name] = tuple(value)
        return cls(**known)  # type: ignore[arg-type]


def parse_concurrency(text: str) -> tuple[int, ...]:
    """Read "1,8,32"; ValueError names the part that is not a number."""
    levels = []
    for part in text.split(","):
        if not part.strip().isdigit():
            raise ValueError(f"--concurrency: {part.strip()!r} is not a whole number; write for example 1,8,32")
        levels.append(int(part))
    return tuple(levels)


def parse_positive(text: str, option: str) -> float:
    """A number above 0, or "inf"; ValueError otherwise."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0:
        raise ValueError(f"{option}: {text!r} is neither a number above 0 nor inf")
    return value


def parse_rates(text: str) -> tuple[str, ...]:
    """Read "1,2.5,inf"; ValueError names the part that is no rate."""
    parts = tuple(part.strip() for part in text.split(","))
    return tuple("inf" if math.isinf(parse_positive(part, "--request-rate")) else f"{float(part):g}" for part in parts)


def parse_mix(text: str) -> tuple[Mapping[str, Json], ...]:
    """Read "agent=0.7,text=0.3"; ValueError names the part that is no class."""
    classes: list[Mapping[str, Json]] = []
    for part in text.split(","):
        name, _, weight = (each.strip() for each in part.partition("="))
        classes.append({"name": name, "workload": name, "weight": parse_positive(weight, f"--mix {part.strip()}")})
    return tuple(classes)


def parse_note(text: str) -> tuple[str, str]:
    """Read KEY=VALUE; ValueError when there is no key or no equals sign."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"--note {text!r}: write KEY=VALUE, for example --note image=lmsysorg/sglang:dev")
    return key.strip(), value
