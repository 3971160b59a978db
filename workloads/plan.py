"""The ground floor: what a step, an observation and a generator are.

A generator is pure. The driver hands it what it saw of each answer and asks what to do next; the generator never
sees a socket, a clock or a random source of its own. Everything done to a server is a `Step`, so the history is
complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias, TypeVar

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
State = TypeVar("State")


class Phase(StrEnum):
    """Whether a request counts: warm-up requests are recorded but left out of every metric."""

    WARMUP = "warmup"
    MEASURE = "measure"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One function call in an assistant message; `arguments` is JSON text, as the wire carries it."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One chat message in OpenAI's terms; `content` None means absent (an assistant turn of tool calls only)."""

    role: str
    content: str | None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPrompt:
    """Messages with optional tool definitions; an endpoint without chat gets `as_text`."""

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Json], ...] = ()

    def __post_init__(self) -> None:
        if not self.messages:
            raise ValueError("a chat prompt needs at least one message")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPrompt:
    """A raw text prompt, for the completions route."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrompt:
    """A prompt given as token ids, for servers that take them."""

    token_ids: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.token_ids:
            raise ValueError("a token prompt needs at least one token id")


Prompt: TypeAlias = ChatPrompt | TextPrompt | TokenPrompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to the model.

    `key` names the step within its cell and must be unique there. `arm` is the role of the request in a check.
    `planned_ns` is when it was due, counted from the start of the cell; None means as soon as it was produced.
    `expected_prompt_tokens` is the length the workload aimed at; None means it did not aim at one.
    `parameters` are body fields of this request alone; they win over the run's sampling options.
    `labels` are facts about the request that whoever judges it needs; they are not sent. `abort_after_events`: the
    connection is dropped once so many pieces of the answer have come, about an event each; 0: once it is written.
    """

    key: str
    prompt: Prompt
    max_tokens: int
    session: str | None = None
    turn: int | None = None
    arm: str | None = None
    phase: Phase = Phase.MEASURE
    stream: bool = True
    planned_ns: int | None = None
    expected_prompt_tokens: int | None = None
    parameters: Mapping[str, Json] = field(default_factory=dict)
    labels: Mapping[str, Json] = field(default_factory=dict)
    abort_after_events: int | None = None

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError(f"{self.key}: max_tokens must be at least 1, got {self.max_tokens}")
        if self.abort_after_events is not None and self.abort_after_events < 0:
            raise ValueError(f"{self.key}: abort_after_events cannot be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """Leave the server alone for `duration_ns`."""

    key: str
    duration_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """Read the server's counters now."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A line in the history and nothing else: the start of a phase, a remark of the generator."""

    key: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """Empty the server's cache by its own means.

    Its observation's outcome says whether the server claims to have done so; the proof is the next cached count.
    """

    key: str


Step: TypeAlias = Ask | Sleep | Scrape | Marker | Flush


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing to do before the next observation, or before `until_ns` (from the cell's start) if that comes first."""

    until_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """No more steps will come; what is in flight is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The small view of an answer that a generator may react to; None means the server did not say.

    `outcome` is "ok", "refused" (surely not executed) or "unknown" (may have executed and warmed the cache). A
    generator that does not react gets "unread": the answer has ended, and nobody has looked at it yet.
    """

    key: str
    outcome: str
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    text: str | None = None
    ttft_ns: int | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    token_ids: tuple[int, ...] | None = None


class Generator(Protocol[State]):
    """A pure source of steps.

    The driver calls `next` once with each observation, and with None whenever it has room for another request or the
    time of a `Wait` has come. A step returned by either call is carried out. The same arguments always give the same
    result.
    """

    @property
    def name(self) -> str:
        """The workload's name, as the command line spells it."""
        ...

    @property
    def version(self) -> int:
        """Raised whenever the same seed and spec would give other steps; part of a plan's digest."""
        ...

    @property
    def reacts(self) -> bool:
        """Whether steps depend on more of an observation than its key."""
        ...

    def spec(self) -> Mapping[str, Json]:
        """Everything the steps depend on, as plain data."""
        ...

    def start(self) -> State:
        """The state before the first step."""
        ...

    def next(self, state: State, observation: Observation | None, now_ns: int) -> tuple[State, Step | Wait | Done]:
        """The next state and what to do; `now_ns` counts from the start of the cell."""
        ...
