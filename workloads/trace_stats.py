"""What a trace is like: sessions, lengths, growth, pauses, and how much a cache without end would save."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from workloads.agent_profile import AgentProfile
from workloads.plan import ChatPrompt, Json, Prompt, TextPrompt
from workloads.quantiles import PERCENTILES, QuantileTable, fit_table
from workloads.text import CountTokens, message_tokens, prompt_tokens, tools_tokens
from workloads.trace import Trace, TracedRequest

SHRINK_SHARE = 0.2
TEXT_BLOCK_CHARS = 64
SHOWN = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True, kw_only=True)
class TraceStats:
    """Figures of a trace; a quantity without a value has no table.

    infinite_cache_token_hit: share of input tokens that an endless cache would hold already; None if nothing is known
    of what prompts share. shrink_share: later calls that lost over a fifth of the context.
    """

    source: str
    requests: int
    sessions: int
    tables: Mapping[str, QuantileTable]
    infinite_cache_token_hit: float | None
    tool_share: float | None
    shrink_share: float | None
    bad_rows: int = 0

    def as_json(self) -> dict[str, Json]:
        """One object: counts, then p50, p90 and p99 of every quantity."""
        shown: dict[str, Json] = {
            name: {word: table.at(share) for word, share in SHOWN.items()} for name, table in self.tables.items()
        }
        return {
            "source": self.source,
            "requests": self.requests,
            "sessions": self.sessions,
            **shown,
            "infinite_cache_token_hit": self.infinite_cache_token_hit,
            "fraction_of_calls_that_follow_a_tool_result": self.tool_share,
            "fraction_of_steps_with_context_shrink_over_20_percent": self.shrink_share,
            "bad_rows": self.bad_rows,
        }


def counted(trace_requests: Iterable[TracedRequest], count: CountTokens) -> list[TracedRequest]:
    """The requests with the lengths that their text shows, where the trace does not give them."""
    found: list[TracedRequest] = []
    for request in trace_requests:
        if request.input_tokens is None and request.prompt is not None:
            request = replace(request, input_tokens=prompt_tokens(request.prompt, count))
        if request.output_tokens is None and request.output_text is not None:
            request = replace(request, output_tokens=count(request.output_text))
        found.append(request)
    return found


def trace_stats(trace: Trace, count: CountTokens) -> TraceStats:
    """The figures of a trace; `count` measures text where lengths are not given."""
    trace = replace(trace, requests=tuple(counted(trace.requests, count)))
    sessions = list(trace.sessions().values())
    pairs = [pair for session in sessions for pair in pairwise(session)]
    kinds = [request.kind for request in trace.requests if request.kind is not None]
    values = {name: each for name, each in _values(trace, sessions, pairs).items() if each}
    return TraceStats(
        source=trace.source,
        requests=len(trace.requests),
        sessions=len(sessions),
        tables={name: fit_table(each) for name, each in values.items()},
        infinite_cache_token_hit=infinite_cache_token_hit(trace),
        tool_share=sum(kind == "tool" for kind in kinds) / len(kinds) if kinds else None,
        shrink_share=_shrink_share(pairs),
        bad_rows=len(trace.bad_rows),
    )


def _values(
    trace: Trace, sessions: Sequence[Sequence[TracedRequest]], pairs: Sequence[tuple[TracedRequest, TracedRequest]]
) -> dict[str, list[float]]:
    """Every quantity's values under the names of the recorded tables."""
    values: dict[str, list[float]] = {
        "calls_per_session": [len(session) for session in sessions],
        "first_input_tokens": _known(session[0].input_tokens for session in sessions),
        "last_input_tokens": _known(session[-1].input_tokens for session in sessions),
        "input_tokens": _known(request.input_tokens for request in trace.requests),
        "output_tokens": _known(request.output_tokens for request in trace.requests),
        "prefix_fraction_shared_with_previous_call": _prefix_shares(pairs),
        "steps_per_user_turn": [steps for session in sessions for steps in _steps_per_turn(session)],
        "interarrival_s": _gaps(trace.requests),
    }
    for kind, word in {"tool": "tool_result", "user": "user_text"}.items():
        added = [_new_tokens(one, two) for one, two in pairs if two.kind == kind]
        values[f"new_tokens_after_{word}"] = [new for new in added if new is not None and new > 0]
        values[f"think_time_before_{kind}_step_s"] = _known(two.think_s for _, two in pairs if two.kind == kind)
    following = {"ending_in_tool_use": "tool", "ending_otherwise": "user"}
    for ending, kind in following.items():
        values[f"output_tokens_{ending}"] = _known(one.output_tokens for one, two in pairs if two.kind == kind)
    return values


def infinite_cache_token_hit(trace: Trace) -> float | None:
    """Tokens of leading blocks seen before / input tokens, over all requests in the order of their times."""
    ordered = sorted(trace.requests, key=lambda request: -1.0 if request.at_s is None else request.at_s)
    if trace.block_tokens is not None:
        return _block_hit(ordered, trace.block_tokens)
    if any(request.prompt is not None for request in ordered):
        return _text_hit(ordered)
    if any(request.prefix_tokens is not None for request in ordered):
        known = [request for request in ordered if request.input_tokens]
        return sum(request.prefix_tokens or 0 for request in known) / sum(_known(r.input_tokens for r in known))
    return None


def _block_hit(ordered: Sequence[TracedRequest], block_tokens: int) -> float | None:
    seen: set[int] = set()
    hit = total = 0
    for request in ordered:
        if request.input_tokens is None or request.blocks is None:
            continue
        leading = _leading(seen, request.blocks)
        seen.update(request.blocks)
        hit += min(request.input_tokens, leading * block_tokens)
        total += request.input_tokens
    return hit / total if total else None


def _text_hit(ordered: Sequence[TracedRequest]) -> float | None:
    """Shares of text stand for shares of tokens, in blocks of TEXT_BLOCK_CHARS characters."""
    seen: set[int] = set()
    hit = total = 0.0
    for request in ordered:
        if request.prompt is None or request.input_tokens is None:
            continue
        blocks = text_blocks(request.prompt)
        hit += request.input_tokens * _leading(seen, blocks) / max(1, len(blocks))
        total += request.input_tokens
        seen.update(blocks)
    return hit / total if total else None


def _leading(seen: set[int], blocks: Sequence[int]) -> int:
    return next((at for at, block in enumerate(blocks) if block not in seen), len(blocks))


def text_blocks(prompt: Prompt, chars: int = TEXT_BLOCK_CHARS) -> tuple[int, ...]:
    """An id for each block of a prompt's text that stands for the block and everything before it."""
    chained = 0
    blocks: list[int] = []
    text = plain_text(prompt)
    for start in range(0, len(text), chars):
        chained = hash((chained, text[start : start + chars]))
        blocks.append(chained)
    return tuple(blocks)


def plain_text(prompt: Prompt) -> str:
    """A prompt as one text; a chat's tools come first, as most templates have them, token ids as numbers."""
    if isinstance(prompt, TextPrompt):
        return prompt.text
    if isinstance(prompt, ChatPrompt):
        tools = "".join(f"{tool}\n" for tool in prompt.tools)
        said = (
            f"{m.role}: {m.content or ''}{''.join(f'{c.name}({c.arguments})' for c in m.tool_calls)}\n"
            for m in prompt.messages
        )
        return tools + "".join(said)
    return " ".join(map(str, prompt.token_ids))


def fit_profile(trace: Trace, count: CountTokens) -> AgentProfile:
    """The profile of a trace's sessions; ValueError names what the trace does not tell."""
    stats = trace_stats(trace, count)
    tables = dict(stats.tables)
    for name, value in _shared_part(trace, count).items():
        tables[name] = fit_table(value)
    shown: dict[str, Json] = {name: table.as_json() for name, table in tables.items()}
    return AgentProfile.from_json(
        {
            "source": f"fitted to {stats.requests} requests of {stats.sessions} sessions of {stats.source}",
            "percentiles": list(PERCENTILES),
            **shown,
            "fraction_of_steps_with_context_shrink_over_20_percent": stats.shrink_share or 0.0,
        }
    )


def _shared_part(trace: Trace, count: CountTokens) -> dict[str, list[float]]:
    """Lengths of tool definitions and system prompts: of the text, or what all sessions share of their blocks."""
    first = [session[0] for session in trace.sessions().values()]
    chats = [request.prompt for request in first if isinstance(request.prompt, ChatPrompt)]
    if chats:
        systems = [sum(message_tokens(m, count) for m in chat.messages if m.role == "system") for chat in chats]
        return {
            "tool_definition_tokens": [float(tools_tokens(chat.tools, count)) for chat in chats],
            "system_prompt_tokens": [float(tokens) for tokens in systems],
        }
    shared = 0
    if trace.block_tokens is not None and len(first) > 1:
        blocks = [request.blocks or () for request in first]
        shared = trace.block_tokens * next(
            (at for at, each in enumerate(zip(*blocks, strict=False)) if len(set(each)) > 1), min(map(len, blocks))
        )
    return {"tool_definition_tokens": [0.0], "system_prompt_tokens": [float(shared)]}


def _known(values: Iterable[float | None]) -> list[float]:
    return [float(value) for value in values if value is not None]


def _new_tokens(one: TracedRequest, two: TracedRequest) -> float | None:
    if one.input_tokens is None or one.output_tokens is None or two.input_tokens is None:
        return None
    return two.input_tokens - one.input_tokens - one.output_tokens


def _prefix_shares(pairs: Sequence[tuple[TracedRequest, TracedRequest]]) -> list[float]:
    return [
        two.prefix_tokens / two.input_tokens for _, two in pairs if two.prefix_tokens is not None and two.input_tokens
    ]


def _shrink_share(pairs: Sequence[tuple[TracedRequest, TracedRequest]]) -> float | None:
    known = [(one.input_tokens, two.input_tokens) for one, two in pairs if one.input_tokens and two.input_tokens]
    return sum(two < (1 - SHRINK_SHARE) * one for one, two in known) / len(known) if known else None


def _steps_per_turn(session: Sequence[TracedRequest]) -> list[float]:
    if any(request.kind is None for request in session):
        return []
    starts = [at for at, request in enumerate(session) if request.kind == "user" or at == 0]
    return [float(end - start) for start, end in pairwise([*starts, len(session)])]


def _gaps(requests: Sequence[TracedRequest]) -> list[float]:
    times_s = sorted(_known(request.at_s for request in requests))
    return [later - earlier for earlier, later in pairwise(times_s)]
