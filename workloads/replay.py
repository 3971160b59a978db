"""The "trace" workload: a recorded trace sent again, as its own text or as text that shares prefixes as it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from workloads.options import AGENT_CHOICES, WorkloadOptions
from workloads.plan import ChatPrompt, Json, Prompt
from workloads.ruler import Ruler, TextRuler, candidate_pieces, make_pool
from workloads.sessions import GivenSessions, Session, SessionGenerator, Turn
from workloads.text import CountTokens, message_tokens, tools_tokens
from workloads.trace import Trace, TracedRequest, jittered
from workloads.trace_stats import counted

NS_PER_S = 1_000_000_000
DEFAULT_OUTPUT_TOKENS = 128
PARTS_KEPT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What of a trace is sent, and when.

    timed: sessions start, and turns are due, at the trace's own times divided by `speed`; a turn waits for the answer
    before it all the same. Untimed, sessions start as there is room or as other arrivals say. limit_s: only requests of
    the trace's first so many seconds.
    """

    timed: bool = False
    speed: float = 1.0
    limit_s: float | None = None

    def __post_init__(self) -> None:
        if not self.speed > 0:
            raise ValueError(f"the speed of a trace must be above 0, got {self.speed:g}")


class TraceFamily:
    """Sessions of a trace in the order of their first request."""

    name = "trace"
    version = 1
    default_turns = 1

    def __init__(
        self, trace: Trace, options: WorkloadOptions, replay: ReplayOptions, ruler: Ruler, count: CountTokens
    ) -> None:
        self._trace = trace
        self._options = options
        self._replay = replay
        self._ruler = ruler
        self._count = lru_cache(maxsize=PARTS_KEPT)(count)
        requests = _chosen(jittered(trace.requests, options.seed), options.requests, replay.limit_s)
        grouped = Trace(format=trace.format, source=trace.source, requests=requests).sessions()
        self._sessions = sorted(grouped.values(), key=lambda turns: _at_s(turns[0]))

    @property
    def given_sessions(self) -> GivenSessions:
        starts_ns = tuple(self._ns(_at_s(turns[0])) for turns in self._sessions) if self._replay.timed else None
        return GivenSessions(count=len(self._sessions), starts_ns=starts_ns)

    def spec(self) -> Mapping[str, Json]:
        return {
            "seed": self._options.seed,
            "format": self._trace.format,
            "source": self._trace.source,
            "rows": sum(len(turns) for turns in self._sessions),
            "bad_rows": len(self._trace.bad_rows),
            "timed": self._replay.timed,
            "speed": self._replay.speed,
            "limit_s": self._replay.limit_s,
            "output_tokens": self._options.output_tokens,
            "ruler": self._ruler.as_json(),
        }

    def session(self, group: str, index: int, turns: int) -> Session:
        """Session `index`; warm-up sessions are prompts of their own with the length of the trace's."""
        recorded = self._sessions[index % len(self._sessions)]
        if group == "warmup":
            length = recorded[0].input_tokens or DEFAULT_OUTPUT_TOKENS
            prompt = self._ruler.joined([(f"warmup/{self._options.seed}/{index}", length)])
            return Session(turns=(Turn(prompt=prompt, max_tokens=1, expected_prompt_tokens=self._expected(length)),))
        return Session(turns=tuple(self._turn(recorded, at) for at in range(len(recorded))))

    def _turn(self, recorded: Sequence[TracedRequest], at: int) -> Turn:
        request = recorded[at]
        output = request.output_tokens if self._options.output_tokens is None else self._options.output_tokens
        prompt, expected = self._prompt(request)
        before = recorded[at - 1].prompt if at else None
        return Turn(
            prompt=prompt,
            max_tokens=max(1, DEFAULT_OUTPUT_TOKENS if output is None else output),
            expected_prompt_tokens=expected,
            think_ns=self._ns(request.think_s) if request.think_s is not None and at else 0,
            at_ns=self._ns(request.at_s) if self._replay.timed and request.at_s is not None else None,
            kept_messages=_kept(before, prompt),
        )

    def _prompt(self, request: TracedRequest) -> tuple[Prompt, int | None]:
        if request.prompt is not None:
            return request.prompt, self._text_tokens(request.prompt) if request.input_tokens is None else (
                request.input_tokens
            )
        length = request.input_tokens or 1
        return self._ruler.joined(self._parts(request, length)), self._expected(length)

    def _text_tokens(self, prompt: Prompt) -> int | None:
        """Length of a recorded prompt; messages that come again are counted once."""
        if not isinstance(prompt, ChatPrompt):
            return (counted([TracedRequest(session="", turn=0, prompt=prompt)], self._count))[0].input_tokens
        return tools_tokens(prompt.tools, self._count) + sum(
            message_tokens(message, self._count) for message in prompt.messages
        )

    def _parts(self, request: TracedRequest, length: int) -> list[tuple[Json, int]]:
        """Blocks by their ids, the last one as long as is left; without blocks, the session's own text."""
        size = self._trace.block_tokens
        if size is None or not request.blocks:
            return [(f"{self._options.seed}/{self._trace.source}/{request.session}", length)]
        blocks = request.blocks[: -(-length // size)]
        parts: list[tuple[Json, int]] = [
            (f"{self._options.seed}/block/{block}", min(size, length - at * size)) for at, block in enumerate(blocks)
        ]
        rest = length - len(blocks) * size
        if rest > 0:
            parts.append((f"{self._options.seed}/rest/{request.session}/{request.turn}", rest))
        return parts

    def _expected(self, length: int) -> int:
        return length + self._ruler.overhead_tokens

    def _ns(self, seconds: float) -> int:
        return round(seconds / self._replay.speed * NS_PER_S)


def _chosen(requests: Sequence[TracedRequest], limit: int | None, limit_s: float | None) -> tuple[TracedRequest, ...]:
    """The first requests by time, at most `limit` of them and none later than `limit_s`."""
    ordered = sorted(requests, key=_at_s)
    within = [request for request in ordered if limit_s is None or _at_s(request) < limit_s]
    return tuple(within[:limit])


def _at_s(request: TracedRequest) -> float:
    return 0.0 if request.at_s is None else request.at_s


def _kept(before: Prompt | None, prompt: Prompt) -> int | None:
    """Leading messages that both prompts have; None if the later one does not begin with all of the earlier."""
    if not isinstance(before, ChatPrompt) or not isinstance(prompt, ChatPrompt):
        return None
    length = len(before.messages)
    return length if prompt.messages[:length] == before.messages and len(prompt.messages) > length else None


def replay_trace(
    trace: Trace, options: WorkloadOptions, replay: ReplayOptions, count: CountTokens, *, chat: bool
) -> SessionGenerator:
    """The "trace" workload, see `trace_family`."""
    return SessionGenerator(trace_family(trace, options, replay, count, chat=chat), options, count)


def trace_family(
    trace: Trace, options: WorkloadOptions, replay: ReplayOptions, count: CountTokens, *, chat: bool
) -> TraceFamily:
    """The sessions of a trace; without a ruler, lengths are as good as `count`. ValueError if none is left to send."""
    options.refuse("trace", "input_tokens", "token_id_range", *(each for each in AGENT_CHOICES if each != "live"))
    ruler = options.ruler
    if ruler is None:
        ruler = TextRuler(pool=make_pool(candidate_pieces(), count), template_tokens=0, chat=chat)
    family = TraceFamily(trace, options, replay, ruler, count)
    if not family.given_sessions.count:
        raise ValueError(f"nothing of {trace.source} is left to send")
    return family
