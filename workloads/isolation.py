"""What has to be asked to know whether requests keep to themselves: codewords in company, strangers, aborts, churn.

Every session is one prompt that states a fact of its own ("key K17 is 4821.") and asks for it. It is asked alone, and
then among others in every way that lets one request's state reach another's. A fresh salt keeps each request a miss,
where the server takes salts, so that nothing but company differs from asking alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from workloads.material import Material, Segment
from workloads.plan import Ask, Json, Prompt, Scrape, Sleep, TextPrompt
from workloads.text import paragraphs, seeded
from workloads.waves import Phase, Wave, Waves

NAME = "isolation"
VERSION = 3
SESSIONS = 16
SIZES = (2, 3, 4, 5, 6, 8, 16)
MOST_IN_FLIGHT = 16
ANSWER_TOKENS = 12
LONG_ANSWER_TOKENS = 24
DROPPED_TOKENS = 64
PRESSED_ANSWER_TOKENS = 96
DROPPED_AFTER = (0, 1, 2, 3, 5, 8)
BACKGROUND_TOKENS = (2, 5, 9, 14, 20, 24)
FILLER_CHARS = 160
TENANT_CHARS = 2200
STORED_CHARS = 400
STORED = 12
PRESSED = 12
RESENT = 12
LATE = 8
# From a drop to the next request: what is still to be written for the dropped one is written soon after.
PAUSES_NS = (1, 2_000_000)
FIRST_KEY, LAST_KEY = 10, 99
# Years occur in ordinary text: no codeword looks like one.
LOWEST_DIGIT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationOptions:
    """How much is asked, and by what means.

    name: of the round, so that its content is new. cycles: times the whole is repeated. chat: prompts are questions,
    not texts to go on with. digits: of a codeword. salt, bypass: what keeps a request from older cache entries.
    fields: body fields that ask for log-probabilities. resend_tokens: length of a prompt that leaves one token to
    compute after a hit, None where lengths are not exact. pressed_tokens: length of prompts of which PRESSED overfill
    the server's memory, None where that is not known or too much.
    """

    name: str
    seed: Json
    cycles: int = 1
    chat: bool = False
    digits: int = 4
    salt: bool = False
    bypass: bool = False
    fields: Mapping[str, Json] = field(default_factory=dict)
    resend_tokens: int | None = None
    pressed_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.cycles < 1 or self.digits < 4:
            raise ValueError("isolation: at least 1 cycle and codewords of at least 4 digits")

    def as_json(self) -> dict[str, Json]:
        """Plain data: what the plan depends on."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One prompt with its fact."""

    name: str
    key: str
    codeword: str
    filler_chars: int = FILLER_CHARS


def isolation(material: Material, options: IsolationOptions) -> Waves:
    """The plan of a round."""
    asking = _Asking(material, options)
    return Waves(
        name=NAME,
        version=VERSION,
        phases=tuple(asking.phase(cycle) for cycle in range(options.cycles)),
        parameters={**options.as_json(), "material": material.seed},
    )


def sessions(
    seed: Json, name: str, digits: int, number: int, prefix: str = "p", filler_chars: int = FILLER_CHARS
) -> tuple[Session, ...]:
    """`number` sessions whose keys and codewords all differ."""
    rng = seeded(seed, NAME, name, prefix)
    keys = rng.sample(range(FIRST_KEY, LAST_KEY + 1), number)
    codewords = rng.sample(range(LOWEST_DIGIT * 10 ** (digits - 1), 10**digits), number)
    return tuple(
        Session(name=f"{name}/{prefix}{index:02}", key=f"K{key}", codeword=str(codeword), filler_chars=filler_chars)
        for index, (key, codeword) in enumerate(zip(keys, codewords, strict=True))
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where in the plan a request stands: its arm, its cycle, how many were begun with it."""

    arm: str
    cycle: int
    size: int = 1


class _Asking:
    """Makes the requests of one plan; the same calls in the same order always make the same ones."""

    def __init__(self, material: Material, options: IsolationOptions) -> None:
        self._material = material
        self._options = options
        self._sessions = sessions(options.seed, options.name, options.digits, SESSIONS)
        self._stored = sessions(options.seed, options.name, options.digits, STORED * options.cycles, "s", STORED_CHARS)
        self._late = sessions(options.seed, options.name, options.digits, LATE * options.cycles, "l", STORED_CHARS)
        self._tenants = sessions(options.seed, options.name, options.digits, 4 * options.cycles, "t")

    def phase(self, cycle: int) -> Phase:
        """One pass as a phase that does not depend on what was seen."""
        waves = tuple(self._cycle(cycle))
        return lambda past: waves

    def _cycle(self, cycle: int) -> Iterator[Wave]:
        """One pass through everything."""
        number = count()
        yield (Scrape(key=f"before-{cycle}"),)
        yield from ((self._fact(session, _Place(arm="solo", cycle=cycle), number),) for session in self._sessions)
        yield from self._company(cycle, number)
        yield from self._strangers(cycle, number)
        yield self._storm(cycle, number)
        yield from self._after_storm(cycle, number)
        yield from self._after_each_drop(cycle, number)
        yield self._churn(cycle, number)
        yield from self._pressed(cycle, number)
        yield from self._resent(cycle, number)
        yield from ((self._fact(each, _Place(arm="solo", cycle=cycle), number),) for each in self._sessions[:4])
        yield (Scrape(key=f"after-{cycle}"),)

    def _company(self, cycle: int, number: Iterator[int]) -> Iterator[Wave]:
        """Waves of every size, so that every session is in company about as often as any other."""
        turn = cycle
        for size in SIZES:
            chosen = [self._sessions[(turn + index) % SESSIONS] for index in range(size)]
            turn += size
            place = _Place(arm="company", cycle=cycle, size=size)
            yield tuple(self._fact(session, place, number) for session in chosen)

    def _strangers(self, cycle: int, number: Iterator[int]) -> Iterator[Wave]:
        """A long tenant, then a stranger who asks for the tenant's key, then a session that was asked before."""
        for index in range(4):
            tenant = self._tenants[4 * cycle + index]
            yield (self._tenant(tenant, cycle, number),)
            yield (self._stranger(tenant, cycle, number),)
            yield (self._fact(self._sessions[4 + index], _Place(arm="after-tenant", cycle=cycle), number),)

    def _storm(self, cycle: int, number: Iterator[int]) -> Wave:
        """Requests that are dropped midway, and victims who come as places fall free, some to be cached."""
        steps: list[Ask] = []
        for index in range(4 * len(DROPPED_AFTER)):
            steps.append(self._dropped(DROPPED_AFTER[index % len(DROPPED_AFTER)], cycle, number))
            if index % 2:
                place = _Place(arm="victim", cycle=cycle, size=MOST_IN_FLIGHT)
                steps.append(self._fact(self._sessions[index % SESSIONS], place, number))
            if index % 2 == 0:
                place = _Place(arm="stored", cycle=cycle, size=MOST_IN_FLIGHT)
                steps.append(self._fact(self._stored[STORED * cycle + index // 2], place, number, salted=False))
        return tuple(steps)

    def _after_storm(self, cycle: int, number: Iterator[int]) -> Iterator[Wave]:
        """What was cached in the storm: computed anew, and taken from the cache."""
        for session in self._stored[STORED * cycle : STORED * (cycle + 1)]:
            yield (self._fact(session, _Place(arm="solo", cycle=cycle), number),)
            yield (self._fact(session, _Place(arm="cached", cycle=cycle), number, salted=False),)

    def _after_each_drop(self, cycle: int, number: Iterator[int]) -> Iterator[Wave]:
        """One by one: a request is dropped, and what is cached next is asked once more, anew and from the cache."""
        for index, session in enumerate(self._late[LATE * cycle : LATE * (cycle + 1)]):
            yield (self._dropped(DROPPED_AFTER[2 + index % 4], cycle, number),)
            key = f"{self._options.name}/{cycle}/gone{index}"
            pause = Sleep(key=key, duration_ns=PAUSES_NS[index % len(PAUSES_NS)])
            stored = _Place(arm="stored", cycle=cycle)
            yield (pause, self._fact(session, stored, number, salted=False))
            yield (self._fact(session, _Place(arm="solo", cycle=cycle), number),)
            yield (self._fact(session, _Place(arm="cached", cycle=cycle), number, salted=False),)

    def _churn(self, cycle: int, number: Iterator[int]) -> Wave:
        """One foreground request again and again while others come and go."""
        steps: list[Ask] = []
        for index in range(8):
            place = _Place(arm="foreground", cycle=cycle, size=MOST_IN_FLIGHT)
            steps.append(self._fact(self._sessions[cycle % 4], place, number, LONG_ANSWER_TOKENS))
            steps += [self._background(BACKGROUND_TOKENS[(3 * index + n) % 6], cycle, number) for n in range(3)]
        return tuple(steps)

    def _pressed(self, cycle: int, number: Iterator[int]) -> Iterator[Wave]:
        """More than fits, so that somebody has to give way."""
        tokens = self._options.pressed_tokens
        if tokens is None:
            return
        names = [f"{self._options.name} pressed {cycle} {index}" for index in range(PRESSED)]

        def heavy(name: str, place: _Place) -> Ask:
            prompt = self._material.prompt([Segment(name=name, tokens=tokens)])
            return self._ask(name, prompt, place, number, PRESSED_ANSWER_TOKENS, expected=tokens)

        yield from ((heavy(name, _Place(arm="solo", cycle=cycle)),) for name in names)
        yield tuple(heavy(name, _Place(arm="pressed", cycle=cycle, size=PRESSED)) for name in names)

    def _resent(self, cycle: int, number: Iterator[int]) -> Iterator[Wave]:
        """A prompt that leaves one token to compute after a hit: alone, and while others decode."""
        tokens = self._options.resend_tokens
        if tokens is None or not self._material.exact:
            return
        name = f"{self._options.name} resent {cycle}"
        prompt = self._material.prompt([Segment(name=name, tokens=tokens)])

        def again(arm: str, size: int = 1) -> Ask:
            place = _Place(arm=arm, cycle=cycle, size=size)
            return self._ask(name, prompt, place, number, ANSWER_TOKENS, salted=False, expected=tokens)

        yield (again("fill"),)
        yield (again("resent-alone"),)
        yield (again("resent-alone"),)
        others = [self._background(BACKGROUND_TOKENS[n % 6], cycle, number) for n in range(MOST_IN_FLIGHT - 2)]
        yield (*others, *(again("resent", MOST_IN_FLIGHT) for _ in range(RESENT)))

    def _fact(
        self,
        session: Session,
        place: _Place,
        number: Iterator[int],
        tokens: int = ANSWER_TOKENS,
        *,
        salted: bool = True,
    ) -> Ask:
        labels: dict[str, Json] = {"key": session.key, "codeword": session.codeword}
        prompt = self._question(session)
        return self._ask(session.name, prompt, place, number, tokens, labels=labels, salted=salted)

    def _tenant(self, session: Session, cycle: int, number: Iterator[int]) -> Ask:
        labels: dict[str, Json] = {"key": session.key, "codeword": session.codeword}
        prompt = self._text(session.name, TENANT_CHARS, [_fact(session)], session.key)
        return self._ask(session.name, prompt, _Place(arm="tenant", cycle=cycle), number, 4, labels=labels)

    def _stranger(self, tenant: Session, cycle: int, number: Iterator[int]) -> Ask:
        """Asks for a key that it was never told."""
        name = f"{tenant.name} stranger"
        prompt = self._text(name, FILLER_CHARS, [], tenant.key)
        return self._ask(name, prompt, _Place(arm="stranger", cycle=cycle), number, ANSWER_TOKENS)

    def _dropped(self, after: int, cycle: int, number: Iterator[int]) -> Ask:
        name = f"{self._options.name} dropped {cycle}"
        prompt = self._text(f"{name} {after}", 2 * FILLER_CHARS, [], "K00")
        return self._ask(None, prompt, _Place(arm="dropped", cycle=cycle), number, DROPPED_TOKENS, abort=after)

    def _background(self, tokens: int, cycle: int, number: Iterator[int]) -> Ask:
        name = f"{self._options.name} background {cycle} {tokens}"
        prompt = self._text(name, FILLER_CHARS, [], "K00")
        return self._ask(None, prompt, _Place(arm="background", cycle=cycle), number, tokens)

    def _question(self, session: Session) -> Prompt:
        return self._text(session.name, session.filler_chars, [_fact(session)], session.key)

    def _text(self, name: str, chars: int, facts: Sequence[str], key: str) -> TextPrompt:
        """The facts, some ordinary text, and the beginning of the fact that is wanted."""
        filler = paragraphs(seeded(self._material.seed, NAME, name), chars)
        if self._options.chat:
            end = f"What is key {key}? Answer with the number alone, or with 'unknown'."
        else:
            end = f"key {key} is"
        return TextPrompt(text=" ".join([f"[{name}]", *facts, filler, end]))

    def _ask(
        self,
        session: str | None,
        prompt: Prompt,
        place: _Place,
        number: Iterator[int],
        max_tokens: int,
        *,
        labels: Mapping[str, Json] | None = None,
        salted: bool = True,
        expected: int | None = None,
        abort: int | None = None,
    ) -> Ask:
        key = f"{self._options.name}/{place.cycle}/{next(number):03}/{place.arm}"
        return Ask(
            key=key,
            prompt=prompt,
            max_tokens=max_tokens,
            session=session,
            arm=place.arm,
            expected_prompt_tokens=expected,
            parameters={**self._options.fields, **(self._freshness(key) if salted else {})},
            labels={"cycle": place.cycle, "size": place.size, **(labels if labels is not None else {})},
            abort_after_events=abort,
        )

    def _freshness(self, key: str) -> Mapping[str, Json]:
        if self._options.salt:
            return {"cache_salt": self._material.salt(key)}
        return {"cache_prompt": False} if self._options.bypass else {}


def _fact(session: Session) -> str:
    return f"key {session.key} is {session.codeword}."
