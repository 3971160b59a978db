"""Many sequential sessions as one generator: each session's next turn waits for its own answer.

A cell has stages with a barrier between them: one warm-up request alone, the other warm-ups, the filling of the cache
if asked for, then the measured sessions. The sessions do not depend on how many run at once, so cells at different
concurrency send the same prompts. A session that thinks takes no place: the next one starts meanwhile. Under open load
sessions start at given times instead, and every request says when it was due.
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

    at_ns: not before this time from the start of measuring, None for no such bound. kept_messages: leading messages of
    a chat that are those of the same agent's turn before; after them comes its scripted answer. None where there is no
    turn before, or none of it is kept. agent: "main", or the name of one that it sent out. after: places of the earlier
    turns whose answers it waits for, None for the turn before. labels: facts that are kept with the request.
    expected_prompt_tokens None: no length is aimed at.
    """

    prompt: Prompt
    max_tokens: int
    expected_prompt_tokens: int | None
    think_ns: int = 0
    at_ns: int | None = None
    kept_messages: int | None = None
    agent: str = "main"
    after: tuple[int, ...] | None = None
    labels: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Turns to be sent one after the other; branched: some say themselves what they wait for."""

    turns: tuple[Turn, ...]
    branched: bool = False

    def __post_init__(self) -> None:
        if not self.turns:
            raise ValueError("a session needs at least one turn")

    def freed_by(self, turn: int, ended: frozenset[int]) -> tuple[int, ...]:
        """The turns that may come now that `turn` has ended; `ended` are all that have, of a branched session."""
        if not self.branched:
            return (turn + 1,) if turn + 1 < len(self.turns) else ()
        later = range(turn + 1, len(self.turns))
        return tuple(at for at in later if turn in (needs := self._needs(at)) and ended.issuperset(needs))

    def _needs(self, turn: int) -> tuple[int, ...]:
        after = self.turns[turn].after
        return (turn - 1,) if after is None else after


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSessions:
    """A family with so many sessions, no more and no fewer; starts_ns: when each begins, None as there is room."""

    count: int
    starts_ns: tuple[int, ...] | None = None


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

    @property
    def given_sessions(self) -> GivenSessions | None:
        """The sessions of a trace; None if sessions can be made without end."""
        ...

    def spec(self) -> Mapping[str, Json]:
        """Everything the sessions depend on but the token counter."""
        ...

    def session(self, group: str, index: int, turns: int) -> Session:
        """Session `index` of a group ("measure" or "warmup"); index 0 of "warmup" warms what all sessions share."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """Sessions between two barriers.

    count: how many there are, None without end. sessions: those made beforehand, None for those made when opened.
    starts_ns: when each begins, counted from the stage's own start; None means as soon as there is room.
    """

    label: str
    phase: Phase
    text: str
    count: int | None
    sessions: tuple[Session, ...] | None = None
    starts_ns: tuple[int, ...] | None = None

    def opening_ns(self, opened: int, began_ns: int, now_ns: int) -> int | None:
        """When the next session may begin; None if all have begun."""
        if self.count is not None and opened >= self.count:
            return None
        return now_ns if self.starts_ns is None else began_ns + self.starts_ns[opened]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """Where a cell stands.

    began_ns: when this stage did. opened: sessions of this stage begun. ready: (due_ns, session, turn), turns whose
    session is free.
    running: requests in flight, by key. said: of live sessions, what each agent has sent and got. ended: of branched
    sessions, the turns that have ended.
    """

    stage: int = 0
    announced: bool = False
    began_ns: int = 0
    opened: int = 0
    ready: tuple[tuple[int, int, int], ...] = ()
    running: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    said: Mapping[tuple[int, str], Said] = field(default_factory=dict)
    ended: Mapping[int, frozenset[int]] = field(default_factory=dict)


class SessionGenerator:
    """A `Generator` over the sessions of one family; see the module's text for its stages."""

    def __init__(self, family: SessionFamily, options: WorkloadOptions, count: CountTokens) -> None:
        self._family = family
        self._options = options
        self._sample_tokens = count(SAMPLE)
        self._turns = options.turns if options.turns is not None else family.default_turns
        self._opened = lru_cache(maxsize=4 * options.highest_concurrency)(self._made_session)
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
        arrivals = self._options.arrivals
        return {
            **self._family.spec(),
            "requests": self._options.requests,
            "sessions": self._stages[-1].count,
            "turns": self._turns,
            "warmups": self._options.warmups,
            "warm_cache": self._options.warm_cache,
            "assistant": "live" if self._options.live else "scripted",
            "sample_tokens": self._sample_tokens,
            "arrivals": None if arrivals is None else arrivals.as_json(),
            "lengths": None if self._options.ruler is None else self._options.ruler.as_json(),
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
                return replace(state, announced=True, began_ns=now_ns), marker
            due = min(state.ready, default=None)
            opening_ns = stage.opening_ns(state.opened, state.began_ns, now_ns)
            if due is not None and due[0] <= now_ns:
                return self._ask(state, stage, due)
            if opening_ns is not None and opening_ns <= now_ns:
                return self._ask(replace(state, opened=state.opened + 1), stage, (opening_ns, state.opened, 0))
            times_ns = [*([] if due is None else [due[0]]), *([] if opening_ns is None else [opening_ns])]
            if times_ns:
                return state, Wait(until_ns=min(times_ns))
            if state.running:
                return state, Wait()
            if state.stage + 1 == len(self._stages):
                return state, Done()
            state = SessionState(stage=state.stage + 1)

    def _observed(self, state: SessionState, observation: Observation, now_ns: int) -> SessionState:
        """Free what waited for an answer; it is due after its think time, whatever the outcome."""
        running = dict(state.running)
        session, turn = running.pop(observation.key)
        whole = self._session(self._stages[state.stage], session)
        ended = state.ended.get(session, frozenset()) | {turn}
        freed = tuple((self._due_ns(state, whole.turns[at], now_ns), session, at) for at in whole.freed_by(turn, ended))
        over = len(ended) == len(whole.turns) if whole.branched else not freed
        kept = dict(state.ended)
        kept.pop(session, None)
        said = state.said
        if whole.branched and not over:
            kept[session] = ended
        if self._options.live and not over:
            whose = (session, whole.turns[turn].agent)
            said = {**said, whose: said[whose].answered(observation)}
        elif self._options.live:
            said = {whose: each for whose, each in said.items() if whose[0] != session}
        return replace(state, running=running, ready=(*state.ready, *freed), said=said, ended=kept)

    @staticmethod
    def _due_ns(state: SessionState, turn: Turn, now_ns: int) -> int:
        due_ns = now_ns + turn.think_ns
        return due_ns if turn.at_ns is None else max(due_ns, state.began_ns + turn.at_ns)

    def _ask(self, state: SessionState, stage: _Stage, due: tuple[int, int, int]) -> tuple[SessionState, Ask]:
        due_ns, session, index = due
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
            planned_ns=None if stage.starts_ns is None else due_ns,
            expected_prompt_tokens=turn.expected_prompt_tokens if prompt is turn.prompt else None,
            labels=turn.labels if turn.agent == "main" else {**turn.labels, "agent": turn.agent},
        )
        running = {**state.running, key: (session, index)}
        ready = tuple(item for item in state.ready if item != due)
        return replace(state, running=running, ready=ready, said=said), ask

    def _session(self, stage: _Stage, index: int) -> Session:
        return self._opened(index) if stage.sessions is None else stage.sessions[index]

    def _made_session(self, index: int) -> Session:
        return self._family.session("measure", index, self._turns)

    def _build_stages(self) -> tuple[_Stage, ...]:
        measured = self._measured()
        warmups = tuple(self._family.session("warmup", index, 1) for index in range(self._options.warmups))
        stages = [
            _warming("first", "first warm-up request, alone", warmups[:1]),
            _warming("warmup", "other warm-up requests", warmups[1:]),
        ]
        if self._options.warm_cache and measured.count is not None:
            made = (self._session(measured, index) for index in range(measured.count))
            openings = tuple(Session(turns=(replace(item.turns[0], max_tokens=1),)) for item in made)
            stages.append(_warming("fill", "filling the cache", openings))
        return (*(stage for stage in stages if stage.count), measured)

    def _measured(self) -> _Stage:
        """The last stage: the family's own sessions if they are given, else as many as the requests need."""
        given = self._family.given_sessions
        starts_ns = None if given is None else given.starts_ns
        sessions = self._measured_sessions() if given is None else None
        count = given.count if given is not None else None if sessions is None else len(sessions)
        arrivals = self._options.arrivals
        if arrivals is not None:
            starts_ns = arrivals.slowed(1 if given is not None else self._turns).starts_ns(self._options.seed, count)
            count = len(starts_ns)
        return _Stage(
            label="measure",
            phase=Phase.MEASURE,
            text="measuring",
            count=count,
            sessions=sessions,
            starts_ns=starts_ns,
        )

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
        made = [self._family.session("measure", index, turns) for index, turns in enumerate(turn_counts)]
        while _turns_of(made) < requests:
            made.append(self._family.session("measure", len(made), self._turns))
        return trimmed(made, requests)


def _warming(label: str, text: str, sessions: tuple[Session, ...]) -> _Stage:
    return _Stage(label=label, phase=Phase.WARMUP, text=text, count=len(sessions), sessions=sessions)


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
