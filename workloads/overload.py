"""What has to be asked to know whether a server bears more than it can serve: bursts that double, and what comes after.

A few sessions, each with a fact of its own, are asked alone; then ever more at once; after each burst some are asked
alone again. Labels are those of the isolation plan: `key`, `codeword`, `cycle` (0 before, then the number of the
burst), `size`. Arms: `solo`, `burst`, `after`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from workloads.isolation import Session, sessions
from workloads.material import Material
from workloads.phases import Past
from workloads.plan import Ask, Json, Scrape, TextPrompt
from workloads.text import paragraphs, seeded
from workloads.waves import Phase, Wave, Waves

NAME = "overload"
VERSION = 1
SOLO, BURST, AFTER = "solo", "burst", "after"
SESSIONS = 16
CANARIES = 6
SOLO_REPEATS, AFTER_REPEATS = 3, 2
ANSWER_TOKENS = 12
BURST_TOKENS = 32
BURST_CHARS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadOptions:
    """name: of the round, so that its content is new. bursts: how many requests at once, in this order; none bigger is
    tried once one was refused something. chat: prompts are questions. digits: of a codeword. salt, bypass: what keeps
    a request from older cache entries. fields: body fields that ask for log-probabilities.
    """

    name: str
    bursts: tuple[int, ...]
    chat: bool = False
    digits: int = 4
    salt: bool = False
    bypass: bool = False
    fields: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.bursts or min(self.bursts) < 2:
            raise ValueError("overload: a burst has at least 2 requests")

    def as_json(self) -> dict[str, Json]:
        """Plain data: what the plan depends on."""
        return {name: getattr(self, name) for name in self.__slots__}


def overload(material: Material, options: OverloadOptions) -> Waves:
    """The plan of a round."""
    asking = _Asking(material, options)
    phases: list[Phase] = [lambda past: tuple(asking.solo())]
    for number in range(len(options.bursts)):
        phases.append(asking.burst(number))
    return Waves(
        name=NAME,
        version=VERSION,
        phases=tuple(phases),
        parameters={**options.as_json(), "material": material.seed},
    )


class _Asking:
    def __init__(self, material: Material, options: OverloadOptions) -> None:
        self._material = material
        self._options = options
        self._sessions = sessions(material.seed, options.name, options.digits, SESSIONS, "o")

    def solo(self) -> Iterator[Wave]:
        """Every session alone, so that what it answers and how fast is known."""
        yield (Scrape(key=f"{self._options.name}/before"),)
        for session in self._sessions:
            for repeat in range(SOLO_REPEATS if session in self._canaries else 1):
                yield (self._ask(session, SOLO, 0, repeat, ANSWER_TOKENS, 1),)

    def burst(self, number: int) -> Phase:
        """So many at once, then some alone; nothing after a burst of which something was refused."""

        def phase(past: Past) -> tuple[Wave, ...]:
            outcomes = [seen.outcome for key, seen in past.seen.items() if f"/{BURST}/" in key]
            if any(outcome != "ok" for outcome in outcomes):
                return ()
            return tuple(self._burst(number))

        return phase

    def _burst(self, number: int) -> Iterator[Wave]:
        size, cycle = self._options.bursts[number], number + 1
        yield tuple(
            self._ask(self._sessions[index % SESSIONS], BURST, cycle, index, BURST_TOKENS, size)
            for index in range(size)
        )
        for repeat in range(AFTER_REPEATS):
            for session in self._canaries:
                yield (self._ask(session, AFTER, cycle, repeat, ANSWER_TOKENS, 1),)
        yield (Scrape(key=f"{self._options.name}/after-{number}"),)

    @property
    def _canaries(self) -> tuple[Session, ...]:
        return self._sessions[:CANARIES]

    def _ask(self, session: Session, arm: str, cycle: int, number: int, max_tokens: int, size: int) -> Ask:
        key = f"{session.name}/{arm}/{cycle}/{number}"
        own: Mapping[str, Json] = {}
        if self._options.salt:
            own = {"cache_salt": self._material.salt(key)}
        elif self._options.bypass:
            own = {"cache_prompt": False}
        return Ask(
            key=key,
            prompt=self._prompt(session),
            max_tokens=max_tokens,
            session=session.name,
            arm=arm,
            expected_prompt_tokens=None,
            parameters={**self._options.fields, **own},
            labels={"key": session.key, "codeword": session.codeword, "cycle": cycle, "size": size},
        )

    def _prompt(self, session: Session) -> TextPrompt:
        """The session's fact, some ordinary text, and the beginning of the fact again."""
        filler = paragraphs(seeded(self._material.seed, NAME, session.name), BURST_CHARS)
        end = f"key {session.key} is"
        if self._options.chat:
            end = f"What is key {session.key}? Answer with the number alone, or with 'unknown'."
        return TextPrompt(text=f"[{session.name}] key {session.key} is {session.codeword}. {filler} {end}")
