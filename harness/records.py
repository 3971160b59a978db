"""The records of a run: plain frozen types that every room shares.

Times are monotonic nanoseconds of the machine that ran the harness; `RunInfo.clock` and `CellInfo` tie them to the wall
clock. None always means "not reported" or "did not happen"; zero is zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from workloads.plan import Json, Phase

SCHEMA_VERSION = 1


class Outcome(StrEnum):
    """What became of a request.

    REFUSED: surely not executed. UNKNOWN: sent, and may have executed and warmed the cache, but no whole answer came.
    """

    OK = "ok"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class ErrorKind(StrEnum):
    """Why a request is not OK, from the client's side."""

    CONNECT = "connect"
    HTTP_STATUS = "http_status"
    NOT_A_STREAM = "not_a_stream"
    STREAM_ERROR = "stream_error"
    ENDED_EARLY = "ended_early"
    GATEWAY_CACHE = "gateway_cache"
    GARBAGE = "garbage"
    DISCONNECTED = "disconnected"
    CONNECT_TIMEOUT = "connect_timeout"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    STALL_TIMEOUT = "stall_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    CANCELLED = "cancelled"
    HARNESS_DIED = "harness_died"


class TokenSource(StrEnum):
    """Where a count of output tokens came from, best first."""

    USAGE = "usage"
    TOKEN_IDS = "token_ids"
    TOKENIZER = "tokenizer"
    EVENTS = "events"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestError:
    """One request's trouble: `message` is the server's or the library's own words, redacted and shortened."""

    kind: ErrorKind
    message: str
    http_status: int | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """One position: the chosen token, its natural log-probability, and the top candidates as (token, logprob).

    logprob: None where the server gives none (the first echoed token). token_id: None unless the server names it.
    top: empty if it was not asked for, or not given (llama.cpp with speculation).
    """

    token: str
    logprob: float | None
    top: tuple[tuple[str, float], ...] = ()
    token_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts as the server gave them; `cached_tokens` 0 is a reported zero, None is no report."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoke:
    """One step about to be carried out; for a request it is written before the request is.

    `step` is "ask", "sleep", "scrape", "marker" or "flush". `planned_ns` is when it was due. `prompt_hash` names a file
    of prompts/. `parameters` is the request body without the prompt. `labels` are the plan's facts about a request, for
    its judge. `released_ns`: when there was room for it under the limit of requests in flight. `abort_after_events`: we
    drop the connection once so many pieces of the answer have come. The fields of a request are None for other steps,
    and in records that do not say.
    """

    request_id: str
    cell: str
    step: str
    key: str
    planned_ns: int
    phase: Phase
    session: str | None = None
    turn: int | None = None
    arm: str | None = None
    route: str | None = None
    prompt_hash: str | None = None
    expected_prompt_tokens: int | None = None
    parameters: Mapping[str, Json] = field(default_factory=dict)
    labels: Mapping[str, Json] = field(default_factory=dict)
    note: str | None = None
    released_ns: int | None = None
    abort_after_events: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """What came back for one `Invoke`.

    sent_ns: the request was written to its socket. first_token_ns / last_token_ns: arrival of the first byte of the
    first / last event that carried generated text, reasoning or a tool call. end_ns: the answer ended or was given up.
    event_count: events that carried generated tokens; their times are in the cell's sidecar at
    [times_offset, times_offset + event_count).
    event_tokens: tokens of each such event; None means one each. first_event_tokens repeats the first for TPOT.
    unparsed_events: events that were not understood. retries: requests sent again: dead pooled connections
    replaced before any byte came, and 429 waited out where that was asked for (extra["rate_limited"] counts those).
    extra: engine fields kept as they came (timings, metrics, sglext, cost), not interpreted here.
    """

    request_id: str
    outcome: Outcome
    error: RequestError | None = None
    http_status: int | None = None
    sent_ns: int | None = None
    first_token_ns: int | None = None
    last_token_ns: int | None = None
    end_ns: int | None = None
    event_count: int = 0
    times_offset: int | None = None
    event_tokens: tuple[int, ...] | None = None
    first_event_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_source: TokenSource | None = None
    usage: Usage | None = None
    finish_reason: str | None = None
    text: str | None = None
    reasoning: str | None = None
    tool_calls: Json = None
    retries: int = 0
    unparsed_events: int = 0
    raw_kept: bool = False
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.outcome is Outcome.OK) != (self.error is None):
            wanted = "absent" if self.error else "given"
            raise ValueError(f"{self.request_id}: an outcome of {self.outcome} needs its error {wanted}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An `Invoke` joined with its `Complete`; a request whose answer was never written is UNKNOWN (harness died).

    event_times_ns: int64[event_count], absolute arrival times of the events that carried tokens; None if not kept.
    """

    invoke: Invoke
    complete: Complete
    event_times_ns: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterSample:
    """The server's counters at one moment; labels are folded into the name as the exposition writes them."""

    at_ns: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessHealth:
    """What the harness measured of itself during a cell.

    loop_lag_*_ms: how late a periodic timer fired. send_delay_*_ms: from planned to written. cpu_share: CPU seconds of
    the process per wall second. Of several processes the worst is given. achieved_concurrency: mean requests in flight
    over the measured window. connections_open / connections_asked: opened before the cell. processes: of the harness
    that sent or planned and lived to the end. clock_error_ms: how far off times of other machines may be at most.
    gc_share, gc_max_ms: share of the time in which garbage was collected, and the longest pause. backlog_*_bytes: what
    had arrived at the sockets of a process and was not read, looked at four times a second. None: not measured.
    """

    loop_lag_p50_ms: float | None
    loop_lag_p99_ms: float | None
    loop_lag_max_ms: float | None
    send_delay_p50_ms: float | None
    send_delay_p99_ms: float | None
    cpu_share: float | None
    achieved_concurrency: float | None
    connections_asked: int
    connections_open: int
    processes: int = 1
    clock_error_ms: float | None = None
    gc_share: float | None = None
    gc_max_ms: float | None = None
    backlog_p99_bytes: float | None = None
    backlog_max_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellInfo:
    """The closing record of a cell (cell.json); its absence means the cell must be redone.

    window_start_ns / window_end_ns: from the first measured request's planned time to the last measured event.
    counters: samples before, at 1 Hz, and after; empty when the server shows none (`counters_error` says why).
    sent/ok/refused/unknown count measured requests; warmup_requests counts those left out. ended_by: the limit that
    ended the cell before its plan did ("duration", "requests", "tokens"), None if none did. context_tokens: the prompt
    length asked for with --context, None if the workload's own was taken. arrivals: what an open load is called, None
    for a closed loop; request_rate: its requests a second where that is one finite number. cold_start: how a cold
    cache was reached ("by": "nonce", "flush" or "flood", and what proved it), None if the cache was left as it was.
    """

    cell: str
    workload: str
    concurrency: int
    round_index: int
    cache_mode: str
    nonce: str | None
    started_utc: str
    origin_ns: int
    window_start_ns: int | None
    window_end_ns: int | None
    warmup_requests: int
    sent: int
    ok: int
    refused: int
    unknown: int
    health: HarnessHealth
    counters: tuple[CounterSample, ...] = ()
    counters_error: str | None = None
    retries: int = 0
    unparsed_events: int = 0
    warnings: tuple[str, ...] = ()
    ended_by: str | None = None
    context_tokens: int | None = None
    arrivals: str | None = None
    request_rate: float | None = None
    cold_start: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetInfo:
    """Which endpoint was asked and what chose it ("option", "environment", "embedded").

    A key or the userinfo of a URL never gets here.
    """

    base_url: str
    chosen_by: str
    model: str
    endpoint_type: str
    engine: str | None = None
    engine_version: str | None = None
    max_model_len: int | None = None
    details: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """The opening record of a run (run.json), written before anything is sent."""

    schema_version: int
    run_id: str
    command: str
    argv: tuple[str, ...]
    started_utc: str
    clock: Mapping[str, Json]
    versions: Mapping[str, str]
    host: Mapping[str, Json]
    target: TargetInfo
    seed: int
    options: Mapping[str, Json]
    goodput: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """One line of plan.jsonl: what identifies the steps of one round of one cell."""

    round_index: int
    cell: str
    generator: str
    generator_version: int
    seed: int
    spec: Mapping[str, Json]
    digest: str
    concurrency: int | None = None
    parent_verdict: str | None = None
    context_tokens: int | None = None
    arrivals: str | None = None
    request_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number with its unit; value None means it could not be had, and `note` says why."""

    name: str
    unit: str
    value: float | None
    count: int
    note: str | None = None
