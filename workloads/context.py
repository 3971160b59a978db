"""What has to be asked to know how long a context is really served, and whether all of it reaches the model.

Labels: `step`, `limit` (what is served as far as the server says, None if it does not), `wanted` (what its operator
wants, None if nothing was said), `value` and `part` ("start", "middle", "end") of a needle, `sure` (the way of
making the prompt longer was counted right before).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from workloads.control import CONTROL, control, opening, sizes
from workloads.haystack import NUMBER, Document, Keys, Placed, document, needle
from workloads.phases import Past, Phased
from workloads.plan import Ask, Json, Step, TextPrompt
from workloads.text import seeded

NAME = "context"
VERSION = 1
CURVE, NEEDLE, NEAR, AT, OVER_TOTAL, OVER_PROMPT, FAR = (
    "curve", "needle", "near", "at", "over-total", "over-prompt", "far",
)  # fmt: skip
CURVE_PARTS = (16, 8, 4, 2)
LONG_DOCUMENTS = 2
# Shares of the text at which its needles begin; two of each part.
PLACES = (("start", 0.0), ("start", 0.02), ("middle", 0.48), ("middle", 0.52), ("end", 0.93), ("end", 0.96))
LONG_SHARE = 0.93
ANSWER_TOKENS = 24
LIMIT_ANSWER_TOKENS = 8
NEAR_TOKENS = 64
FAR_FACTOR = 1.5
# A word that is one token after any other.
WORD = " a"
SHORTEST_LIMIT = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """Sizes of a plan.

    name: of the round. limit: tokens of prompt and answer that the server says it serves, None if it does not say.
    wanted: what the operator wants, None if nothing was said. chat: needles are asked for by questions.
    """

    name: str
    seed: Json
    limit: int | None
    wanted: int | None = None
    chat: bool = False
    fields: Mapping[str, Json] = field(default_factory=dict)

    @property
    def tested(self) -> int | None:
        """Up to what length is asked; None if nothing is known of any, or it is too short to ask anything."""
        known = [each for each in (self.limit, self.wanted) if each is not None]
        return min(known) if known and min(known) >= SHORTEST_LIMIT else None

    def as_json(self) -> dict[str, Json]:
        """Plain data: what the plan depends on."""
        return {name: getattr(self, name) for name in self.__slots__}


def context(options: ContextOptions) -> Phased:
    """The plan: a control, lengths that double, needles near the limit, then the limit itself from both sides."""
    asking = _Asking(options)
    phases: list[Callable[[Past], tuple[Step, ...]]] = [asking.control]
    if options.tested is not None:
        phases.append(asking.curve)
        phases += [partial(asking.long, index) for index in range(LONG_DOCUMENTS)]
        phases += [asking.near, asking.at, asking.beyond]
    return Phased(name=NAME, version=VERSION, phases=tuple(phases), parameters=options.as_json())


class _Asking:
    """Makes the requests of one plan."""

    def __init__(self, options: ContextOptions) -> None:
        self._options = options

    @property
    def _tested(self) -> int:
        assert self._options.tested is not None, "there is nothing to ask without a length"
        return self._options.tested

    def control(self, past: Past) -> tuple[Step, ...]:
        """How long a value the model repeats, and how long a token is."""
        return tuple(control(self._options.seed, self._options.name, self._control))

    def curve(self, past: Past) -> tuple[Step, ...]:
        """New texts of half the length and less: their times, and whether their beginning is remembered."""
        steps: list[Step] = []
        for part in CURVE_PARTS:
            name = f"{self._options.name}/curve{part}"
            made, digits = self._document(name, self._tested / part, past, PLACES[:1])
            tokens = round(self._tested / part)
            steps += [self._question(name, made, each, CURVE, digits, "start", tokens) for each in made.placed]
        return tuple(steps)

    def long(self, index: int, past: Past) -> tuple[Step, ...]:
        """Needles at both ends and in the middle of a text that nearly fills the context."""
        name = f"{self._options.name}/long{index}"
        tokens = round(self._tested * LONG_SHARE) - ANSWER_TOKENS
        made, digits = self._document(name, tokens, past, PLACES)
        return tuple(
            self._question(name, made, each, NEEDLE, digits, part, tokens)
            for each, (part, _) in zip(made.placed, PLACES, strict=True)
        )

    def near(self, past: Past) -> tuple[Step, ...]:
        """A little below the limit: what it is counted as tells how to get to the limit exactly."""
        first, target = f"{self._options.name}/long0/0", self._tested - LIMIT_ANSWER_TOKENS - NEAR_TOKENS
        return tuple(self._extended(past, first, {NEAR: (target, LIMIT_ANSWER_TOKENS)}))

    def at(self, past: Past) -> tuple[Step, ...]:
        """Prompt and answer together are the limit, to the token."""
        target = self._tested - LIMIT_ANSWER_TOKENS
        return tuple(self._extended(past, self._key(NEAR), {AT: (target, LIMIT_ANSWER_TOKENS)}))

    def beyond(self, past: Past) -> tuple[Step, ...]:
        """One token too many, in all and in the prompt alone; and far too many. Nothing where no limit is known."""
        limit = self._options.limit
        if limit is None:
            return ()
        wanted = {FAR: (round(FAR_FACTOR * limit), 1)}
        if limit == self._tested:
            over_total = (limit - LIMIT_ANSWER_TOKENS + 1, LIMIT_ANSWER_TOKENS)
            wanted = {OVER_TOTAL: over_total, OVER_PROMPT: (limit + 1, 1), **wanted}
        known = self._key(AT) if _counted(past, self._key(AT)) is not None else self._key(NEAR)
        return tuple(self._extended(past, known, wanted))

    def _extended(self, past: Past, base: str, wanted: Mapping[str, tuple[int, int]]) -> list[Ask]:
        """An earlier prompt, made longer to given lengths; nothing if its own was never counted."""
        counted = _counted(past, base)
        asked = next((ask for ask in past.asks if ask.key == base), None)
        if counted is None or asked is None or not isinstance(asked.prompt, TextPrompt):
            return []
        return [
            self._ask(
                self._key(step),
                TextPrompt(text=asked.prompt.text + WORD * max(0, tokens - counted)),
                step,
                max_tokens=answer,
                expected=tokens,
                labels={"sure": asked.arm != NEEDLE and asked.expected_prompt_tokens == counted},
            )
            for step, (tokens, answer) in wanted.items()
        ]

    def _key(self, step: str) -> str:
        return f"{self._options.name}/{step}"

    def _document(
        self, name: str, tokens: float, past: Past, places: tuple[tuple[str, float], ...]
    ) -> tuple[Document, int]:
        known = sizes(past)
        rng = seeded(self._options.seed, NAME, name)
        digits = known.digits if known.digits is not None else 7
        keys = Keys(rng, digits)
        needles = [(needle(NUMBER, keys), share) for _, share in places]
        return document(rng, round(tokens * known.chars_per_token), needles, opening(name)), digits

    def _control(self, name: str, made: Document, each: Placed, digits: int) -> Ask:
        return self._question(name, made, each, CONTROL, digits, "control", None)

    def _question(
        self, name: str, made: Document, each: Placed, step: str, digits: int, part: str, expected: int | None
    ) -> Ask:
        asked = f"\n\n{each.needle.question}" if self._options.chat else f" {each.needle.ends_with}"
        labels: Mapping[str, Json] = {"value": each.needle.value, "part": part, "digits": digits}
        position = made.placed.index(each)
        prompt = TextPrompt(text=made.text + asked)
        return self._ask(
            f"{name}/{position}", prompt, step, max_tokens=ANSWER_TOKENS, expected=expected, labels=labels, session=name
        )

    def _ask(
        self,
        key: str,
        prompt: TextPrompt,
        step: str,
        *,
        max_tokens: int,
        expected: int | None,
        labels: Mapping[str, Json],
        session: str | None = None,
    ) -> Ask:
        limits: Mapping[str, Json] = {"limit": self._options.limit, "wanted": self._options.wanted}
        return Ask(
            key=key,
            prompt=prompt,
            max_tokens=max_tokens,
            session=session,
            arm=step,
            expected_prompt_tokens=expected,
            parameters=self._options.fields,
            labels={"step": step, **limits, **labels},
        )


def _counted(past: Past, key: str) -> int | None:
    seen = past.seen.get(key)
    return None if seen is None else seen.prompt_tokens
