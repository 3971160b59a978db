"""What has to be asked to know whether answers survive the cache: hit it, empty it, fill it again.

A few prompts asked three times show where hits resume. The other prompts are then given lengths that end right behind a
resume point, since a spoilt state shows most in the first tokens after it. Prompts are handled in cycles: fill all,
evict once, return all, evict again, return or refill by another session.

Arms of a prompt: `virgin` cold answers (alone), `cotraffic-cold`, `far` (resumed about 512 tokens earlier), `hit`,
`cotraffic-hit`, `returned` (first after the eviction), `refilled`, `returned-again`; `fill` requests only prepare the
cache. Sentinels are prompts whose turning cold proves that a flood has evicted everything used before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from workloads.eviction_documents import QUESTION, code, document_of_tokens
from workloads.granularity import Rule, fit
from workloads.material import Material, Segment
from workloads.phases import Past
from workloads.plan import Ask, Flush, Json, Marker, Prompt, TextPrompt
from workloads.waves import Phase, Wave, Waves

NAME = "eviction"
VERSION = 1
SHORT_TAILS = (1, 2, 1, 3, 1, 2, 4, 8)
ONE_TOKEN_TAILS = (1, 2, 4, 16)
LONG_TAILS = (33, 37, 42, 47, 52, 57, 61, 63)
FAR_TOKENS = 512
ANSWER_TOKENS = 16
SIGHTINGS = 3
PROBES = (0, 37, 101, 158)
AT_ONCE = 4
FLOOD_STEPS = 5
SMALL_STEP = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionOptions:
    """Sizes and means of a plan.

    name: what prompts of this round are called, so that another round's are fresh. prompts: in all cycles together.
    longest_tokens: of any prompt. cycles: how often the cache is filled and emptied. salt: a fresh `cache_salt` gives
    a cold answer. bypass: `cache_prompt: false` does. flush: the cache can be emptied natively. cache_tokens: what the
    cache holds, None if it is not known. flood_tokens: most that one eviction by flooding may cost. chunk_tokens: the
    server's prefill chunk, None if it is not known. long_tails: every second prompt ends far behind its resume point.
    fields: body fields of every judged request.
    """

    name: str = "r0"
    round_index: int = 0
    seed: int = 0
    prompts: int = 32
    longest_tokens: int = 768
    cycles: int = 3
    salt: bool = False
    bypass: bool = False
    flush: bool = False
    cache_tokens: int | None = None
    flood_tokens: int = 400_000
    chunk_tokens: int | None = None
    long_tails: bool = False
    fields: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.prompts < 1 or self.cycles < 1:
            raise ValueError("an eviction plan needs at least one prompt and one cycle")
        if self.longest_tokens < 2 * max(PROBES):
            raise ValueError(f"prompts of {self.longest_tokens} tokens are too short to find where hits resume")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Where hits resume, as the first prompts showed it.

    rule: of cached tokens. overhead: tokens that the server adds to a prompt. sightings: how often a prompt must have
    been asked before it is a hit.
    """

    rule: Rule
    overhead: int
    sightings: int


def eviction(material: Material, options: EvictionOptions) -> Waves:
    """The plan of one round."""
    asking = _Asking(material, options)
    phases: list[Phase] = [asking.probes]
    for cycle in range(options.cycles):
        phases += [asking.in_cycle(cycle, asking.fill), asking.in_cycle(cycle, asking.traffic)]
        phases += [asking.sentinels(cycle, 0), *asking.evictions(cycle, 0), asking.in_cycle(cycle, asking.come_back)]
        phases += [asking.sentinels(cycle, 1), *asking.evictions(cycle, 1)]
        phases.append(asking.in_cycle(cycle, asking.come_back_again))
    names = [name for name in EvictionOptions.__slots__ if name != "fields"]
    parameters = {name: getattr(options, name) for name in names}
    return Waves(
        name=NAME,
        version=VERSION,
        phases=tuple(phases),
        parameters={**parameters, "material": material.seed, "token_ids": material.exact},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """One prompt: its name, its length without the server's own tokens, and how much of it a far resume skips."""

    name: str
    tokens: int
    far_tokens: int | None
    answer_tokens: int
    labels: Mapping[str, Json]


_Part: TypeAlias = Callable[[int, Shape, Sequence[_Subject]], Iterator[Wave]]


class _Asking:
    """Makes the waves of each phase."""

    def __init__(self, material: Material, options: EvictionOptions) -> None:
        self._material = material
        self._options = options

    # -- phases

    def probes(self, past: Past) -> tuple[Wave, ...]:
        """A few lengths, each until it is a hit."""
        return tuple(
            (self._ask(self._probe(number), "probe", self._probe_tokens(number), output_tokens=1, sighting=sighting),)
            for number in range(len(PROBES))
            for sighting in range(SIGHTINGS)
        )

    def in_cycle(self, cycle: int, part: _Part) -> Phase:
        """A part of the plan for the prompts of one cycle; nothing if hits were never seen."""

        def phase(past: Past) -> tuple[Wave, ...]:
            shape = self.shape(past)
            if shape is None:
                return ()
            return tuple(part(cycle, shape, [self._subject(i, shape) for i in self._members(cycle)]))

        return phase

    def fill(self, cycle: int, shape: Shape, subjects: Sequence[_Subject]) -> Iterator[Wave]:
        """Cold answers first, then the far resume, then hits; where nothing else is cold, the first one fills."""
        yield (Marker(key=f"{self._options.name}/c{cycle}/fill", text="fill"),)
        for subject in subjects:
            yield (self._judged(subject, "virgin", 0, cold=True),)
            if self._can_be_cold:
                yield (self._judged(subject, "virgin", 1, cold=True),)
            if self._options.salt:
                yield from self._far(subject)
            for extra in range(shape.sightings - 1):
                yield (self._judged(subject, "fill", 10 + extra),)
            yield from ((self._judged(subject, "hit", number),) for number in range(2))

    def sentinels(self, cycle: int, number: int) -> Phase:
        """The last prompts used before a flood: when the newest of them is cold, so is everything older."""

        def phase(past: Past) -> tuple[Wave, ...]:
            shape = self.shape(past)
            if shape is None or not self._floods(cycle, number):
                return ()
            subjects = [self._sentinel(cycle, number, step, shape) for step in range(FLOOD_STEPS)]
            return tuple((ask,) for subject in subjects for ask in self._cold_then_hit(subject, shape))

        return phase

    def _cold_then_hit(self, subject: _Subject, shape: Shape) -> Iterator[Ask]:
        yield self._judged(subject, "virgin", 0, cold=True)
        yield from (self._judged(subject, "fill", extra) for extra in range(shape.sightings))
        yield self._judged(subject, "hit", 0)

    def traffic(self, cycle: int, shape: Shape, subjects: Sequence[_Subject]) -> Iterator[Wave]:
        """Several at once: cold ones, then hits between cold strangers."""
        if not self._can_be_cold:
            return
        for start in range(0, len(subjects), AT_ONCE):
            group = subjects[start : start + AT_ONCE]
            yield tuple(self._judged(subject, "cotraffic-cold", 0, cold=True) for subject in group)
            strangers = [self._stranger(f"c{cycle}/stranger{start + i}", "traffic") for i in range(2)]
            yield (*strangers, *(self._judged(subject, "cotraffic-hit", 0) for subject in group))

    def evictions(self, cycle: int, number: int) -> list[Phase]:
        """Empty the cache natively, or flood it in growing steps until a sentinel is cold."""
        key = f"{self._options.name}/c{cycle}/evict{number}"
        marker = Marker(key=key, text="flood" if self._floods(cycle, number) else "flush")
        if not self._floods(cycle, number):
            return [lambda past: ((marker,), (Flush(key=f"{key}/flush"),)) if self.shape(past) else ()]
        return [self._flood(cycle, number, step) for step in range(FLOOD_STEPS)]

    def come_back(self, cycle: int, shape: Shape, subjects: Sequence[_Subject]) -> Iterator[Wave]:
        """All return; then each is asked once more."""
        yield from ((self._judged(subject, "returned", 0),) for subject in subjects)
        for subject in subjects:
            yield from ((self._judged(subject, "fill", 20 + extra),) for extra in range(shape.sightings - 1))
            yield (self._judged(subject, "refilled", 0),)

    def come_back_again(self, cycle: int, shape: Shape, subjects: Sequence[_Subject]) -> Iterator[Wave]:
        """Half return a second time; the others' prefix is brought back by another session, or far from the end."""
        for number, subject in enumerate(subjects):
            if number % 2 == 0:
                yield (self._judged(subject, "returned-again", 0),)
            elif self._options.salt:
                yield from ((self._other_session(subject, extra),) for extra in range(shape.sightings))
                yield (self._judged(subject, "refilled", 1),)
            else:
                yield from self._far(subject)

    # -- what was seen

    def shape(self, past: Past) -> Shape | None:
        """Where hits resume; None if no prompt was ever a hit."""
        last = [past.seen.get(f"{self._probe(number)}/probe/{SIGHTINGS - 1}") for number in range(len(PROBES))]
        seen = [(number, one) for number, one in enumerate(last) if one is not None and one.prompt_tokens is not None]
        points = [(one.prompt_tokens, one.cached_tokens) for _, one in seen if one.cached_tokens is not None]
        rule = fit([(length, cached) for length, cached in points if length is not None])
        if rule is None:
            return None
        overheads = sorted(
            one.prompt_tokens - self._probe_tokens(number) for number, one in seen if one.prompt_tokens is not None
        )
        second = [past.cached(f"{self._probe(number)}/probe/1") for number in range(len(PROBES))]
        early = any(cached is not None and cached > 0 for cached in second)
        return Shape(rule=rule, overhead=overheads[len(overheads) // 2], sightings=1 if early else 2)

    # -- prompts

    def _probe(self, number: int) -> str:
        return f"{self._options.name}/probe{number}"

    def _probe_tokens(self, number: int) -> int:
        return self._options.longest_tokens - PROBES[number]

    def _members(self, cycle: int) -> range:
        return range(cycle, self._options.prompts, self._options.cycles)

    def _subject(self, index: int, shape: Shape) -> _Subject:
        """Prompt `index` of this round; a quarter of them get a one-token answer."""
        long = self._options.long_tails and index % 2 == 1 and shape.rule.step > SMALL_STEP
        turn = index // self._options.cycles
        one = turn % 4 == 3 and not long
        tails = LONG_TAILS if long else ONE_TOKEN_TAILS if one else SHORT_TAILS
        tail = min(tails[turn // (4 if one else 1) % len(tails)], max(1, shape.rule.step - 1))
        name = f"{self._options.name}/p{index:03d}"
        return self._shaped(name, tail, shape, answer_tokens=1 if one else ANSWER_TOKENS, needle=turn % 4 == 1)

    def _sentinel(self, cycle: int, number: int, step: int, shape: Shape) -> _Subject:
        name = f"{self._options.name}/s{cycle}.{number}.{step}"
        return self._shaped(name, 1, shape, answer_tokens=ANSWER_TOKENS, needle=False)

    def _shaped(self, name: str, tail: int, shape: Shape, *, answer_tokens: int, needle: bool) -> _Subject:
        """A prompt that ends `tail` tokens behind the last point from which a hit can resume."""
        rule, chunk = shape.rule, self._options.chunk_tokens
        room = self._options.longest_tokens - rule.offset - tail + 1
        blocks = max(1, room // rule.step)
        aligned = chunk is not None and chunk % rule.step == 0 and chunk // rule.step <= blocks and rule.drop == 0
        if aligned and chunk is not None:
            blocks = blocks // (chunk // rule.step) * (chunk // rule.step)
        length = blocks * rule.step + rule.offset + tail - 1
        far_blocks = blocks - min(-(-FAR_TOKENS // rule.step), blocks - rule.drop // rule.step - 1)
        far = far_blocks * rule.step + rule.offset if 0 < far_blocks < blocks else None
        labels: dict[str, Json] = {
            "round": self._options.round_index,
            "tail": tail,
            "aligned": aligned,
            "needle": needle and not self._material.exact,
            "one_token": answer_tokens == 1,
        }
        if not self._material.exact:
            labels["code"] = code(self._options.seed, name)
        return _Subject(
            name=name,
            tokens=max(1, length - shape.overhead),
            far_tokens=None if far is None else max(1, far - shape.overhead),
            answer_tokens=answer_tokens,
            labels=labels,
        )

    @property
    def _can_be_cold(self) -> bool:
        return self._options.salt or self._options.bypass

    # -- requests

    def _judged(self, subject: _Subject, arm: str, number: int, *, cold: bool = False) -> Ask:
        parameters: dict[str, Json] = dict(self._options.fields)
        if cold and self._options.salt:
            parameters["cache_salt"] = self._material.salt(f"{subject.name}/{arm}/{number}")
        elif cold and self._options.bypass:
            parameters["cache_prompt"] = False
        return Ask(
            key=f"{subject.name}/{arm}/{number}",
            prompt=self._prompt(subject.name, subject.tokens, ending=QUESTION if subject.labels["needle"] else ""),
            max_tokens=subject.answer_tokens,
            session=subject.name,
            arm=arm,
            expected_prompt_tokens=subject.tokens,
            parameters=parameters,
            labels=subject.labels,
        )

    def _far(self, subject: _Subject) -> Iterator[Wave]:
        """Cache a prefix alone, so that the whole prompt resumes there."""
        if subject.far_tokens is None:
            return
        yield (self._ask(subject.name, "fill", subject.far_tokens, output_tokens=1, sighting=0),)
        yield (self._judged(subject, "far", 0),)

    def _other_session(self, subject: _Subject, number: int) -> Ask:
        """The prompt's text up to its last tokens, with another ending."""
        tail = self._options.name + f"/other of {subject.name}"
        kept = max(1, subject.tokens - int(str(subject.labels["tail"])))
        if self._material.exact:
            prompt = self._material.prompt([Segment(name=subject.name, tokens=kept), Segment(name=tail, tokens=24)])
        else:
            whole = self._prompt(subject.name, kept)
            assert isinstance(whole, TextPrompt)
            prompt = TextPrompt(text=f"{whole.text}\n\n{code(self._options.seed, tail)} is another ending.")
        return Ask(
            key=f"{subject.name}/other/{number}",
            prompt=prompt,
            max_tokens=1,
            session=subject.name,
            arm="fill",
            expected_prompt_tokens=kept + 24,
            labels=subject.labels,
        )

    def _stranger(self, name: str, arm: str) -> Ask:
        """A prompt that nobody asks again."""
        tokens = self._options.longest_tokens
        prompt = self._material.prompt([Segment(name=f"{self._options.name}/{name}", tokens=tokens)])
        return Ask(
            key=f"{self._options.name}/{name}", prompt=prompt, max_tokens=1, arm=arm, expected_prompt_tokens=tokens
        )

    def _ask(self, name: str, arm: str, tokens: int, *, output_tokens: int, sighting: int) -> Ask:
        return Ask(
            key=f"{name}/{arm}/{sighting}",
            prompt=self._prompt(name, tokens),
            max_tokens=output_tokens,
            session=name,
            arm=arm,
            expected_prompt_tokens=tokens,
        )

    def _prompt(self, name: str, tokens: int, *, ending: str = "") -> Prompt:
        if self._material.exact:
            return self._material.prompt([Segment(name=name, tokens=tokens)])
        text = document_of_tokens(self._options.seed, name, tokens=tokens, count=self._material.count, ending=ending)
        return TextPrompt(text=text)

    # -- floods

    def _floods(self, cycle: int, number: int) -> bool:
        """Whether this eviction is a flood: the only means there is, or, once, to see eviction by pressure too."""
        if not self._options.flush:
            return True
        known = self._options.cache_tokens
        last = cycle == self._options.cycles - 1 and number == 0
        return last and known is not None and 2 * known <= self._options.flood_tokens

    def _flood(self, cycle: int, number: int, step: int) -> Phase:
        """One step of a flood, and the next sentinel; nothing once one was cold or the limit is reached."""
        first = self._options.cache_tokens or 4 * self._options.longest_tokens * len(self._members(cycle))
        before = [min(self._options.flood_tokens, int(first * 1.1 * 2**i)) for i in range(step)]
        wanted = min(self._options.flood_tokens, int(first * 1.1 * 2**step)) - (before[-1] if before else 0)
        requests = -(-wanted // self._options.longest_tokens)

        def phase(past: Past) -> tuple[Wave, ...]:
            shape = self.shape(past)
            sentinels = [] if shape is None else [self._sentinel(cycle, number, i, shape) for i in range(step + 1)]
            cold = any(past.cached(f"{one.name}/sentinel/0") == 0 for one in sentinels[:-1])
            if not sentinels or cold or wanted <= 0:
                return ()
            strangers = [self._stranger(f"c{cycle}/flood{number}.{step}.{i}", "flood") for i in range(requests)]
            waves = [tuple(strangers[i : i + AT_ONCE]) for i in range(0, len(strangers), AT_ONCE)]
            marker = Marker(key=f"{self._options.name}/c{cycle}/flood{number}.{step}", text="flood")
            return ((marker,), *waves, (self._judged(sentinels[-1], "sentinel", 0),))

        return phase
