"""The "agent" workload: sessions that re-send a growing transcript of tool calls and results.

All sessions share a system prompt and tool definitions. Lengths, pauses and the turns of user and tools are drawn from
the quantile tables of recorded coding-agent sessions, or of a fitted profile. A session enters the cell somewhere in
its life: its start depth is drawn evenly over the sessions, so a short cell is not a shallow one; or it is sent whole.
Assistant turns are scripted, so that every endpoint sees the same lengths, or the model's own ("live").
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workloads import agent_talk
from workloads.agent_profile import AgentProfile, recorded_profile
from workloads.agent_shape import Call, SessionShape, new_tokens, step_kinds, whole_session
from workloads.options import WorkloadOptions
from workloads.plan import Json, Message
from workloads.sessions import Session, Turn
from workloads.text import CountTokens, cut_to_tokens, message_tokens, seeded, spread_fraction
from workloads.transcript import Transcript, definitions_tokens

NS_PER_S = 1_000_000_000
# From this context length on, tool results, user texts and definitions have their recorded lengths; below, a share.
NATURAL_CONTEXT_TOKENS = 12_288
# Below this context length answers have one length, so that short tests of small servers have enough tokens each.
DRAWN_OUTPUT_FROM_TOKENS = 8_192
FIXED_OUTPUT_TOKENS = 64
# What a compaction leaves of a context that has no recorded length to go to.
COMPACTED_SHARE = 0.3
SUB_AGENTS_AT_ONCE = 2
SUB_AGENT_CALLS = 3
SUB_AGENT_START_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """What sessions are like.

    context_tokens: mean prompt length aimed at; of a whole session, what its lengths are scaled to (None: as recorded).
    Start depths are even between low and high share of it, beside the shared part; no step adds more than
    result_high_share. output_tokens None: drawn. think_time_s: median pause, drawn lognormal; recorded_think draws from
    the profile instead. sub_agents: share of tool steps that send sub-agents out. compaction: share of steps at which
    the context is replaced by a summary; None is the profile's. whole: sessions from their first call to their last.
    """

    seed: int
    context_tokens: int = 1536
    output_tokens: int | None = None
    think_time_s: float = 0.0
    recorded_think: bool = False
    sub_agents: float = 0.0
    compaction: float | None = None
    whole: bool = False
    tools_share: float = 0.16
    shared_share: float = 0.34
    start_low_share: float = 0.1
    start_high_share: float = 0.88
    result_high_share: float = 0.25
    think_sigma: float = 1.28

    def __post_init__(self) -> None:
        if self.context_tokens < 256:
            raise ValueError(f"an agent's context needs at least 256 tokens, got {self.context_tokens}")
        if not 0 <= self.sub_agents <= 1 or not 0 <= (self.compaction or 0) <= 1:
            raise ValueError("sub_agents and compaction are shares of steps, between 0 and 1")

    @property
    def scale(self) -> float:
        """What recorded lengths are multiplied by."""
        return min(1.0, self.context_tokens / NATURAL_CONTEXT_TOKENS)

    def as_json(self) -> Mapping[str, Json]:
        """The spec as plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


class AgentFamily:
    """Agent sessions of one spec, see the module's text."""

    name = "agent"
    version = 3
    default_turns = 4
    given_sessions = None

    def __init__(self, spec: AgentSpec, profile: AgentProfile, count: CountTokens) -> None:
        self._spec = spec
        self._profile = profile
        self._count = count
        wanted = round(profile.tool_definition_tokens.at(0.5)), round(profile.system_prompt_tokens.at(0.5))
        tools_limit, shared_limit = wanted[0], sum(wanted)
        tools_tokens = min(tools_limit, round(spec.tools_share * spec.context_tokens))
        shared_tokens = min(shared_limit, round(spec.shared_share * spec.context_tokens))
        self._tools = _tools_within(tools_tokens, seeded(spec.seed, "agent", "tools"), count)
        defined = definitions_tokens(self._tools, count)
        self._system = Message(role="system", content=self._instructions(max(1, shared_tokens - defined)))
        self._shared_tokens = defined + message_tokens(self._system, count)

    def spec(self) -> Mapping[str, Json]:
        return {**self._spec.as_json(), "profile": self._profile.source}

    def session(self, group: str, index: int, turns: int) -> Session:
        rng = seeded(self._spec.seed, "agent", group, index)
        shape = self._whole(group, index) if self._spec.whole else self._window(group, index, turns, rng)
        calls = shape.calls[:turns] if not self._spec.whole or group == "warmup" else shape.calls
        written = tuple(self._written(calls, rng))
        return Session(turns=written, branched=any(turn.after is not None for turn in written))

    def _whole(self, group: str, index: int) -> SessionShape:
        """A whole session; its pauses are the recorded ones only where those are asked for."""
        shape = whole_session(self._profile, f"{self._spec.seed}/{group}", index)
        if self._spec.recorded_think:
            return shape
        rng = seeded(self._spec.seed, "agent", group, index, "think")
        paused = (replace(call, think_s=self._think_s(call.kind, rng)) for call in shape.calls[1:])
        return replace(shape, calls=(replace(shape.calls[0], think_s=0.0), *paused))

    def _window(self, group: str, index: int, turns: int, rng: random.Random) -> SessionShape:
        """A stretch of `turns` calls that begins at the session's start depth."""
        spec, profile = self._spec, self._profile
        depth = spread_fraction(index, seeded(spec.seed, "agent", group, "depth").random())
        share = spec.start_low_share + depth * (spec.start_high_share - spec.start_low_share)
        context = self._shared_tokens + round(share * spec.context_tokens)
        kinds = step_kinds(profile, rng)
        calls: list[Call] = []
        kind = rng.choice(("tool", "user")) if turns > 1 else "tool"
        for _ in range(turns):
            following = next(kinds)
            output = max(1, round(profile.output_tokens(following).at(rng.random())))
            new = 0 if not calls else new_tokens(profile, kind, calls[-1].output_tokens, rng)
            calls.append(self._call(kind, context, new, output, first=not calls, rng=rng))
            kind = following
        return SessionShape(tools_tokens=0, system_tokens=0, calls=tuple(calls))

    def _call(self, kind: str, context: int, new: int, output: int, *, first: bool, rng: random.Random) -> Call:
        return Call(
            kind=kind,
            input_tokens=context,
            new_tokens=new,
            output_tokens=output,
            prefix_tokens=None,
            think_s=0.0 if first else self._think_s(kind, rng),
            compacted=not first and rng.random() < self._compaction,
        )

    @property
    def _compaction(self) -> float:
        return self._profile.shrink_share if self._spec.compaction is None else self._spec.compaction

    def _written(self, calls: Sequence[Call], rng: random.Random) -> list[Turn]:
        """The calls as turns with their text."""
        transcript = Transcript(rng, self._system, self._tools, self._shared_tokens, self._count)
        start = self._context(calls[0])
        first = self._scaled(self._profile.new_after_user_tokens.at(rng.random()))
        transcript.bring("user", min(first, start - transcript.tokens))
        self._fill(transcript, rng, start)
        turns: list[Turn] = []
        for at, call in enumerate(calls):
            before = len(turns)
            kept = self._step(transcript, calls[at - 1], call, turns, rng) if at else None
            sent_out = range(before + SUB_AGENT_CALLS - 1, len(turns), SUB_AGENT_CALLS)
            turns.append(self._turn(transcript, call, kept, after=tuple(sent_out) or None))
        return turns

    def _fill(self, transcript: Transcript, rng: random.Random, tokens: int) -> None:
        """What happened before the session entered the cell."""
        kinds = step_kinds(self._profile, rng)
        next(kinds)
        while transcript.tokens < tokens:
            kind = next(kinds)
            answer = self._answer_tokens(self._profile.output_tokens(kind).at(rng.random()))
            transcript.answer(kind, min(answer, tokens - transcript.tokens))
            new = self._scaled(self._profile.new_tokens(kind).at(rng.random()))
            transcript.bring(kind, min(new, tokens - transcript.tokens))

    def _step(
        self, transcript: Transcript, before: Call, call: Call, turns: list[Turn], rng: random.Random
    ) -> int | None:
        """One step of the session; returns how many messages are as in the turn before, None after a compaction."""
        spec = self._spec
        if call.compacted:
            least = self._shared_tokens + round(spec.start_low_share * spec.context_tokens)
            left = self._context(call) if spec.whole else round(COMPACTED_SHARE * transcript.tokens)
            transcript.compact(max(least, left))
            return None
        kept: int | None = transcript.length
        if call.cleared:
            added = self._answer_tokens(before.output_tokens) + self._scaled(max(0, call.new_tokens))
            surplus = transcript.tokens + added - self._context(call)
            if surplus > 0 and not transcript.clear(surplus):
                transcript.compact(self._context(call))
                return None
            kept = None
        room = self._context(call) - transcript.tokens if spec.whole else math.inf
        transcript.answer(call.kind, min(self._answer_tokens(before.output_tokens), round(min(room, 1e9))))
        new = self._context(call) - transcript.tokens if spec.whole else self._scaled(call.new_tokens)
        if call.kind == "tool" and rng.random() < spec.sub_agents:
            parent = len(turns) - 1
            for number in range(SUB_AGENTS_AT_ONCE):
                turns += self._sub_agent(rng, f"sub{number + 1}", parent)
        transcript.bring(call.kind, new)
        return kept

    def _sub_agent(self, rng: random.Random, name: str, parent: int) -> list[Turn]:
        """Calls of an agent of its own, which shares the system prompt and tools; they begin after turn `parent`."""
        transcript = Transcript(rng, self._system, self._tools, self._shared_tokens, self._count)
        start = round(SUB_AGENT_START_SHARE * self._spec.context_tokens)
        transcript.bring("user", min(start, self._scaled(self._profile.new_after_user_tokens.at(rng.random()))))
        turns: list[Turn] = []
        for number in range(SUB_AGENT_CALLS):
            kept: int | None = None
            if number:
                kept = transcript.length
                transcript.answer("tool", self._answer_tokens(self._profile.output_tokens("tool").at(rng.random())))
                transcript.bring("tool", self._scaled(self._profile.new_tokens("tool").at(rng.random())))
            output = max(1, round(self._profile.output_tokens("tool").at(rng.random())))
            call = self._call("tool", 0, 0, output, first=number == 0, rng=rng)
            turns.append(self._turn(transcript, call, kept, agent=name, after=None if number else (parent,)))
        return turns

    def _turn(
        self,
        transcript: Transcript,
        call: Call,
        kept: int | None,
        agent: str = "main",
        after: tuple[int, ...] | None = None,
    ) -> Turn:
        spec = self._spec
        return Turn(
            prompt=transcript.prompt(),
            max_tokens=spec.output_tokens if spec.output_tokens is not None else call.output_tokens,
            expected_prompt_tokens=transcript.tokens,
            think_ns=round(call.think_s * NS_PER_S),
            kept_messages=kept,
            agent=agent,
            after=after,
        )

    def _context(self, call: Call) -> int:
        """The length a call's prompt should have."""
        return round(call.input_tokens * self._spec.scale) if self._spec.whole else call.input_tokens

    def _answer_tokens(self, recorded: float) -> int:
        """Length of a scripted answer."""
        return round(recorded * self._spec.scale)

    def _scaled(self, recorded: float) -> int:
        """Length of what a step brings."""
        limit = math.inf if self._spec.whole else self._spec.result_high_share * self._spec.context_tokens
        return round(min(recorded * self._spec.scale, limit))

    def _think_s(self, kind: str, rng: random.Random) -> float:
        if self._spec.recorded_think:
            return self._profile.think_s(kind).at(rng.random())
        if self._spec.think_time_s == 0:
            return 0.0
        return rng.lognormvariate(math.log(self._spec.think_time_s), self._spec.think_sigma)

    def _instructions(self, tokens: int) -> str:
        rng = seeded(self._spec.seed, "agent", "system")
        return cut_to_tokens(
            lambda chars: f"{agent_talk.INSTRUCTIONS}\n{agent_talk.rules(rng, chars)}", tokens, self._count
        )


def _tools_within(tokens: int, rng: random.Random, count: CountTokens) -> tuple[agent_talk.Tool, ...]:
    """Tools whose definitions fit into `tokens`, at least three: the common ones, then those of connected services."""
    chosen: list[agent_talk.Tool] = []
    used = 0
    more = agent_talk.service_tools(rng)
    while True:
        tool = agent_talk.TOOLS[len(chosen)] if len(chosen) < len(agent_talk.TOOLS) else next(more)
        used += definitions_tokens([tool], count)
        if used > tokens and len(chosen) >= 3:
            return tuple(chosen)
        chosen.append(tool)


def agent(options: WorkloadOptions, count: CountTokens) -> AgentFamily:
    """The "agent" workload; `input_tokens` is the mean prompt length aimed at."""
    options.refuse("agent", "token_id_range")
    default = AgentSpec(seed=options.seed)
    context = default.context_tokens if options.input_tokens is None else options.input_tokens
    if options.whole_sessions and options.input_tokens is None:
        context = NATURAL_CONTEXT_TOKENS
    output = options.output_tokens
    if output is None and context < DRAWN_OUTPUT_FROM_TOKENS:
        output = FIXED_OUTPUT_TOKENS
    spec = AgentSpec(
        seed=options.seed,
        context_tokens=context,
        output_tokens=output,
        think_time_s=options.think_time_s,
        recorded_think=options.recorded_think,
        sub_agents=options.sub_agents,
        compaction=options.compaction,
        whole=options.whole_sessions,
    )
    profile = recorded_profile() if options.profile is None else options.profile
    return AgentFamily(spec, profile, count)
