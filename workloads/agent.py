"""The "agent" workload: sessions that re-send a growing transcript of tool calls and results.

All sessions share a system prompt and tool definitions. A session enters the cell somewhere in its life: its start
depth is drawn evenly over the sessions, so a short cell is not a shallow one. Assistant turns are scripted, not the
model's own, so every endpoint sees the same lengths.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from workloads import agent_talk
from workloads.options import WorkloadOptions
from workloads.plan import ChatPrompt, Json, Message, ToolCall
from workloads.sessions import Session, SessionGenerator, Turn
from workloads.text import CountTokens, cut_to_tokens, message_tokens, seeded, spread_fraction, tools_tokens
from workloads.tool_output import TOOL_OUTPUTS

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """Sizes of the sessions, most as shares of `context_tokens`, the mean prompt length aimed at.

    The start depth is even between its low and high share, beside the shared part. Lengths of tool results and think
    times are lognormal; their sigma, and the calls per user turn, are those of recorded coding-agent sessions
    (github.com/callanjfox/kv-cache-tester, 710 sessions), tool results cut at `result_high_share`.
    """

    seed: int
    context_tokens: int = 1536
    output_tokens: int = 64
    think_time_s: float = 0.0
    tools_share: float = 0.16
    shared_share: float = 0.34
    start_low_share: float = 0.1
    start_high_share: float = 0.88
    result_median_share: float = 0.04
    result_high_share: float = 0.25
    result_sigma: float = 0.8
    think_sigma: float = 1.28
    calls_per_user_turn: float = 5.9

    def __post_init__(self) -> None:
        if self.context_tokens < 256:
            raise ValueError(f"an agent's context needs at least 256 tokens, got {self.context_tokens}")

    def as_json(self) -> Mapping[str, Json]:
        """The spec as plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


class _Transcript:
    """A session's messages while they are written, with the tokens of each prefix."""

    def __init__(self, rng: random.Random, system: Message, shared_tokens: int, count: CountTokens) -> None:
        self._rng = rng
        self._count = count
        self._messages = [system]
        self.tokens = shared_tokens

    def add(self, message: Message) -> None:
        self._messages.append(message)
        self.tokens += message_tokens(message, self._count)

    def prompt(self, tools: tuple[Mapping[str, Json], ...]) -> ChatPrompt:
        return ChatPrompt(messages=tuple(self._messages), tools=tools)


class AgentFamily:
    """Agent sessions of one spec, see the module's text."""

    name = "agent"
    version = 1
    default_turns = 4

    def __init__(self, spec: AgentSpec, count: CountTokens) -> None:
        self._spec = spec
        self._count = count
        self._tools = _tools_within(round(spec.tools_share * spec.context_tokens), count)
        self._definitions = tuple(tool.definition() for tool in self._tools)
        defined_tokens = tools_tokens(self._definitions, count)
        shared_tokens = round(spec.shared_share * spec.context_tokens)
        self._system = Message(role="system", content=self._instructions(max(1, shared_tokens - defined_tokens)))
        self._shared_tokens = defined_tokens + message_tokens(self._system, count)

    def spec(self) -> Mapping[str, Json]:
        return self._spec.as_json()

    def session(self, group: str, index: int, turns: int) -> Session:
        spec = self._spec
        rng = seeded(spec.seed, "agent", group, index)
        share = spec.start_low_share + self._depth(group, index) * (spec.start_high_share - spec.start_low_share)
        start_tokens = self._shared_tokens + round(share * spec.context_tokens)
        transcript = _Transcript(rng, self._system, self._shared_tokens, self._count)
        transcript.add(self._user(rng))
        while transcript.tokens < start_tokens:
            self._exchange(transcript, rng, start_tokens - transcript.tokens)
        sent: list[Turn] = []
        for number in range(turns):
            if number > 0:
                self._exchange(transcript, rng, spec.context_tokens)
            sent.append(self._turn(transcript, 0 if number == 0 else self._think_ns(rng)))
        return Session(turns=tuple(sent))

    def _depth(self, group: str, index: int) -> float:
        return spread_fraction(index, seeded(self._spec.seed, "agent", group, "depth").random())

    def _turn(self, transcript: _Transcript, think_ns: int) -> Turn:
        return Turn(
            prompt=transcript.prompt(self._definitions),
            max_tokens=self._spec.output_tokens,
            expected_prompt_tokens=transcript.tokens,
            think_ns=think_ns,
        )

    def _exchange(self, transcript: _Transcript, rng: random.Random, room_tokens: int) -> None:
        """One assistant turn and what comes back: a tool result, or a closing word and the user's next task."""
        if rng.random() < 1 / self._spec.calls_per_user_turn:
            transcript.add(Message(role="assistant", content=agent_talk.closing(rng)))
            transcript.add(self._user(rng))
            return
        tool = rng.choice(self._tools)
        call = ToolCall(call_id=f"call_{rng.getrandbits(36):09x}", name=tool.name, arguments=tool.arguments(rng))
        transcript.add(Message(role="assistant", content=agent_talk.remark(rng), tool_calls=(call,)))
        tokens = max(8, min(self._result_tokens(rng), room_tokens))
        text = cut_to_tokens(lambda chars: TOOL_OUTPUTS[tool.output](rng, chars), tokens, self._count)
        transcript.add(Message(role="tool", content=text, tool_call_id=call.call_id))

    def _user(self, rng: random.Random) -> Message:
        return Message(role="user", content=agent_talk.task(rng))

    def _result_tokens(self, rng: random.Random) -> int:
        spec = self._spec
        drawn = rng.lognormvariate(math.log(spec.result_median_share * spec.context_tokens), spec.result_sigma)
        return round(min(drawn, spec.result_high_share * spec.context_tokens))

    def _think_ns(self, rng: random.Random) -> int:
        if self._spec.think_time_s == 0:
            return 0
        return round(rng.lognormvariate(math.log(self._spec.think_time_s), self._spec.think_sigma) * NS_PER_S)

    def _instructions(self, tokens: int) -> str:
        rng = seeded(self._spec.seed, "agent", "system")
        return cut_to_tokens(
            lambda chars: f"{agent_talk.INSTRUCTIONS}\n{agent_talk.rules(rng, chars)}", tokens, self._count
        )


def _tools_within(tokens: int, count: CountTokens) -> tuple[agent_talk.Tool, ...]:
    """The first tools whose definitions fit into `tokens`, at least three."""
    chosen: list[agent_talk.Tool] = []
    used = 0
    for tool in agent_talk.TOOLS:
        used += tools_tokens((tool.definition(),), count)
        if used > tokens and len(chosen) >= 3:
            break
        chosen.append(tool)
    return tuple(chosen)


def agent(options: WorkloadOptions, count: CountTokens) -> SessionGenerator:
    """The "agent" workload; `input_tokens` is the mean prompt length aimed at."""
    options.refuse("agent", "token_id_range")
    default = AgentSpec(seed=options.seed)
    spec = AgentSpec(
        seed=options.seed,
        context_tokens=default.context_tokens if options.input_tokens is None else options.input_tokens,
        output_tokens=default.output_tokens if options.output_tokens is None else options.output_tokens,
        think_time_s=options.think_time_s,
    )
    return SessionGenerator(AgentFamily(spec, count), options, count)
