"""Many sequential sessions as one generator: each session's next turn waits for its own answer.

A cell has stages with a barrier between them: one warm-up request alone, the other warm-ups, the filling of the cache
if asked for, then the measured sessions. The sessions do not depend on how many run at once, so cells at different
concurrency send the same prompts. A session that thinks takes no place: the next one starts meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

from workloads.live import Said
from workloads.options import WorkloadOptions
from workloads.plan import Ask, ChatPrompt, Done, Json, Marker, Observation, Phase, Prompt, Step, Wait
from workloads.text import SAMPLE, CountTokens

GENERATOR_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request of a session; `think_ns` passes between the previous answer and this request.

    kept_messages: leading messages of a chat that are those of the same agent's turn before; after them comes its
    scripted answer. None where there is no turn before, or none of it is kept. agent: "main", or the name of one that
    it sent out. expected_prompt_tokens None: no length is aimed at.
    """

    prompt: Prompt
    max_tokens: int
    expected_prompt_tokens: int | None
    think_ns: int = 0
    kept_messages: int | None = None
    agent: str = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Turns to be sent one after the other."""

    turns: tuple[Turn, ...]

    def __post_init__(self) -> None:
        if not self.turns:
            raise ValueError("a session needs at least one turn")


class SessionFamily(Protocol):
    """Where sessions come from: a pure function of the family's own seed, a group name and an index."""

    @property
    def name(self) -> str:
        """The workload's name on the command line."""
        ...

    @property
    def version(self) -> int:
        """Raised whenever the same spec would give other sessions."""
        ...

    @property
    def default_turns(self) -> int:
        """Turns of a session inside one cell."""
        ...

    def spec(self) -> Mapping[str, Json]:
        """Everything the sessions depend on but the token counter."""
        ...

    def session(self, group: str, index: int, turns: int) -> Session:
        """Session `index` of a group ("measure" or "warmup"); index 0 of "warmup" warms what all sessions share."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """Sessions between two barriers; `sessions` None means without end, made when opened."""

    label: str
    phase: Phase
    text: str
    sessions: tuple[Session, ...] | None

    def exhausted(self, opened: int) -> bool:
        return self.sessions is not None and opened >= len(self.sessions)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """Where a cell stands.

    opened: sessions of this stage begun. ready: (due_ns, session, turn), turns whose session is free.
    running: requests in flight, by key. said: of live sessions, what each agent has sent and got.
    """

    stage: int = 0
    announced: bool = False
    opened: int = 0
    ready: tuple[tuple[int, int, int], ...] = ()
    running: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    said: Mapping[tuple[int, str], Said] = field(default_factory=dict)


class SessionGenerator:
    """A `Generator` over the sessions of one family; see the module's text for its stages."""

    def __init__(self, family: SessionFamily, options: WorkloadOptions, count: CountTokens) -> None:
        self._family = family
        self._options = options
        self._sample_tokens = count(SAMPLE)
        self._turns = options.turns if options.turns is not None else family.default_turns
        self._opened = lru_cache(maxsize=4 * options.highest_concurrency)(self._endless_session)
        self._stages = self._build_stages()

    @property
    def name(self) -> str:
        return self._family.name

    @property
    def reacts(self) -> bool:
        return self._options.live

    @property
    def version(self) -> int:
        return 1000 * GENERATOR_VERSION + self._family.version

    def spec(self) -> Mapping[str, Json]:
        """The family's spec, the stages' sizes, and the sample's length as a mark of the token counter."""
        measured = self._stages[-1].sessions
        return {
            **self._family.spec(),
            "requests": self._options.requests,
            "sessions": None if measured is None else len(measured),
            "turns": self._turns,
            "warmups": self._options.warmups,
            "warm_cache": self._options.warm_cache,
            "assistant": "live" if self._options.live else "scripted",
            "sample_tokens": self._sample_tokens,
        }

    def start(self) -> SessionState:
        return SessionState()

    def next(
        self, state: SessionState, observation: Observation | None, now_ns: int
    ) -> tuple[SessionState, Step | Wait | Done]:
        if observation is not None:
            state = self._observed(state, observation, now_ns)
        while True:
            stage = self._stages[state.stage]
            if not state.announced:
                marker = Marker(key=f"stage.{stage.label}", text=stage.text)
                return replace(state, announced=True), marker
            due = min(state.ready, default=None)
            if due is not None and due[0] <= now_ns:
                return self._ask(state, stage, due)
            if not stage.exhausted(state.opened):
                return self._ask(replace(state, opened=state.opened + 1), stage, (now_ns, state.opened, 0))
            if due is not None:
                return state, Wait(until_ns=due[0])
            if state.running:
                return state, Wait()
            if state.stage + 1 == len(self._stages):
                return state, Done()
            state = SessionState(stage=state.stage + 1)

    def _observed(self, state: SessionState, observation: Observation, now_ns: int) -> SessionState:
        """Free the session of an answer; its next turn is due after its think time, whatever the outcome."""
        running = dict(state.running)
        session, turn = running.pop(observation.key)
        turns = self._session(self._stages[state.stage], session).turns
        said, ready = state.said, state.ready
        if turn + 1 < len(turns):
            ready = (*ready, (now_ns + turns[turn + 1].think_ns, session, turn + 1))
            if self._options.live:
                whose = (session, turns[turn].agent)
                said = {**said, whose: said[whose].answered(observation)}
        elif self._options.live:
            said = {whose: each for whose, each in said.items() if whose[0] != session}
        return replace(state, running=running, ready=ready, said=said)

    def _ask(self, state: SessionState, stage: _Stage, due: tuple[int, int, int]) -> tuple[SessionState, Ask]:
        _, session, index = due
        turn = self._session(stage, session).turns[index]
        key = f"{stage.label}.{session:05d}.{index:03d}"
        said, prompt = state.said, turn.prompt
        if self._options.live and isinstance(prompt, ChatPrompt):
            prompt = _live_prompt(prompt, turn.kept_messages, said.get((session, turn.agent)))
            said = {**said, (session, turn.agent): Said(messages=prompt.messages)}
        ask = Ask(
            key=key,
            prompt=prompt,
            max_tokens=turn.max_tokens,
            session=f"{stage.label}.{session:05d}",
            turn=index,
            phase=stage.phase,
            expected_prompt_tokens=turn.expected_prompt_tokens if prompt is turn.prompt else None,
            labels={} if turn.agent == "main" else {"agent": turn.agent},
        )
        running = {**state.running, key: (session, index)}
        ready = tuple(item for item in state.ready if item != due)
        return replace(state, running=running, ready=ready, said=said), ask

    def _session(self, stage: _Stage, index: int) -> Session:
        return self._opened(index) if stage.sessions is None else stage.sessions[index]

    def _endless_session(self, index: int) -> Session:
        return self._family.session("measure", index, self._turns)

    def _build_stages(self) -> tuple[_Stage, ...]:
        measured = self._measured_sessions()
        warmups = tuple(self._family.session("warmup", index, 1) for index in range(self._options.warmups))
        stages = [
            _Stage(label="first", phase=Phase.WARMUP, text="first warm-up request, alone", sessions=warmups[:1]),
            _Stage(label="warmup", phase=Phase.WARMUP, text="other warm-up requests", sessions=warmups[1:]),
        ]
        if self._options.warm_cache and measured is not None:
            openings = tuple(Session(turns=(replace(item.turns[0], max_tokens=1),)) for item in measured)
            stages.append(_Stage(label="fill", phase=Phase.WARMUP, text="filling the cache", sessions=openings))
        stages = [stage for stage in stages if stage.sessions]
        return (*stages, _Stage(label="measure", phase=Phase.MEASURE, text="measuring", sessions=measured))

    def _measured_sessions(self) -> tuple[Session, ...] | None:
        requests = self._options.requests
        if requests is None:
            return None
        if self._options.whole_sessions:
            sessions: list[Session] = []
            while len(sessions) < self._options.highest_concurrency or _turns_of(sessions) < requests:
                sessions.append(self._family.session("measure", len(sessions), self._turns))
            return trimmed(sessions, requests)
        turn_counts = share_turns(requests, self._turns, self._options.highest_concurrency)
        return trimmed(
            [self._family.session("measure", index, turns) for index, turns in enumerate(turn_counts)], requests
        )


def _live_prompt(prompt: ChatPrompt, kept: int | None, said: Said | None) -> ChatPrompt:
    """The prompt with the model's own answers in place of the scripted ones."""
    if kept is None or said is None:
        return prompt
    return replace(prompt, messages=said.then(prompt.messages[kept:]))


def _turns_of(sessions: Sequence[Session]) -> int:
    return sum(len(session.turns) for session in sessions)


def trimmed(sessions: Sequence[Session], requests: int) -> tuple[Session, ...]:
    """The sessions with `requests` turns in all, or fewer if they have fewer; the longest lose their last ones."""
    surplus = _turns_of(sessions) - requests
    limit = max((len(session.turns) for session in sessions), default=0)
    while surplus > 0:
        limit -= 1
        over = sum(len(session.turns) > limit for session in sessions)
        surplus -= over
    kept: list[Session] = []
    for session in sessions:
        room = limit + (surplus < 0 and len(session.turns) > limit)
        surplus += room - limit if len(session.turns) > limit else 0
        if room > 0:
            kept.append(replace(session, turns=session.turns[:room]))
    return tuple(kept)


def share_turns(requests: int, turns: int, concurrency: int) -> tuple[int, ...]:
    """How many turns each session has: `turns` or fewer, so that `concurrency` sessions can run, `requests` in all."""
    sessions = max(math.ceil(requests / turns), min(concurrency, requests))
    base, extra = divmod(requests, sessions)
    return tuple(base + (index < extra) for index in range(sessions))
