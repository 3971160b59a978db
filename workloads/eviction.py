"""What has to be asked to know whether answers survive the cache: hit it, empty it, fill it again.

A few prompts asked three times show where hits resume. The other prompts are then given lengths that end right behind a
resume point, since a spoilt state shows most in the first tokens after it. Prompts are handled in cycles: fill all,
evict once, return all, evict again, return or refill by another session.

Arms of a prompt: `virgin` cold answers (alone), `cotraffic-cold`, `far` (resumed about 512 tokens earlier), `hit`,
`cotraffic-hit`, `returned` (first after the eviction), `refilled`, `returned-again`; `fill` requests only prepare the
cache. Sentinels are prompts whose turning cold proves that a flood has evicted everything used before it. `short`
prompts are below any block, so they are cold whenever they are asked: what a slot kept of its last tenant shows there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from workloads.eviction_documents import QUESTION, code, document_of_tokens
from workloads.eviction_shape import (
    ANSWER_TOKENS,
    PROBES,
    EvictionOptions,
    Shape,
    Subject,
    shape_prompt,
    shape_sentinel,
)
from workloads.granularity import fit
from workloads.material import Material, Segment
from workloads.phases import Past
from workloads.plan import Ask, Flush, Json, Marker, Observation, Prompt, TextPrompt
from workloads.waves import Phase, Wave, Waves

NAME = "eviction"
VERSION = 1
SHORT_TOKENS, SHORTEST_TOKENS = 12, 4
SIGHTINGS = 3
AT_ONCE = 4
FLOOD_STEPS = 5


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


def imagined(ask: Ask) -> Observation:
    """The answer of a server with blocks of 64 that keeps what it has seen until it is told or made to forget."""
    length = ask.expected_prompt_tokens if ask.expected_prompt_tokens is not None else 1
    warm = ask.arm != "sentinel" and not ask.key.endswith("/probe/0")
    return Observation(
        key=ask.key, outcome="ok", prompt_tokens=length, cached_tokens=(length - 1) // 64 * 64 if warm else 0
    )


_Part: TypeAlias = Callable[[int, Shape, Sequence[Subject]], Iterator[Wave]]


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
            return tuple(
                part(
                    cycle,
                    shape,
                    [shape_prompt(self._options, i, shape, exact=self._material.exact) for i in self._members(cycle)],
                )
            )

        return phase

    def fill(self, cycle: int, shape: Shape, subjects: Sequence[Subject]) -> Iterator[Wave]:
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
            yield from self._short(subject, shape, 0)

    def sentinels(self, cycle: int, number: int) -> Phase:
        """The last prompts used before a flood: when the newest of them is cold, so is everything older."""

        def phase(past: Past) -> tuple[Wave, ...]:
            shape = self.shape(past)
            if shape is None or not self._floods(cycle, number):
                return ()
            subjects = [self._sentinel(cycle, number, step, shape) for step in range(FLOOD_STEPS)]
            return tuple((ask,) for subject in subjects for ask in self._cold_then_hit(subject, shape))

        return phase

    def _cold_then_hit(self, subject: Subject, shape: Shape) -> Iterator[Ask]:
        yield self._judged(subject, "virgin", 0, cold=True)
        yield from (self._judged(subject, "fill", extra) for extra in range(shape.sightings))
        yield self._judged(subject, "hit", 0)

    def traffic(self, cycle: int, shape: Shape, subjects: Sequence[Subject]) -> Iterator[Wave]:
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

    def come_back(self, cycle: int, shape: Shape, subjects: Sequence[Subject]) -> Iterator[Wave]:
        """All return; then each is asked once more."""
        for subject in subjects:
            yield (self._judged(subject, "returned", 0),)
            yield from self._short(subject, shape, 1)
        for subject in subjects:
            yield from ((self._judged(subject, "fill", 20 + extra),) for extra in range(shape.sightings - 1))
            yield (self._judged(subject, "refilled", 0),)

    def come_back_again(self, cycle: int, shape: Shape, subjects: Sequence[Subject]) -> Iterator[Wave]:
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

    def _sentinel(self, cycle: int, number: int, step: int, shape: Shape) -> Subject:
        name = f"{self._options.name}/s{cycle}.{number}.{step}"
        return shape_sentinel(self._options, name, shape, exact=self._material.exact)

    def _probe(self, number: int) -> str:
        return f"{self._options.name}/probe{number}"

    def _probe_tokens(self, number: int) -> int:
        return int(self._options.longest_tokens * PROBES[number])

    def _members(self, cycle: int) -> range:
        return range(cycle, self._options.prompts, self._options.cycles)

    @property
    def _can_be_cold(self) -> bool:
        return self._options.salt or self._options.bypass

    # -- requests

    def _judged(self, subject: Subject, arm: str, number: int, *, cold: bool = False) -> Ask:
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

    def _short(self, subject: Subject, shape: Shape, number: int) -> Iterator[Wave]:
        """A few tokens that no cache keeps; nothing where the server's own tokens fill a block."""
        tokens = min(SHORT_TOKENS, shape.rule.step - 1 - shape.overhead)
        if tokens >= SHORTEST_TOKENS:
            name = f"{subject.name}/short"
            short = Subject(
                name=name,
                tokens=tokens,
                far_tokens=None,
                answer_tokens=ANSWER_TOKENS,
                labels={"round": self._options.round_index, "needle": False},
            )
            yield (self._judged(short, "short", number),)

    def _far(self, subject: Subject) -> Iterator[Wave]:
        """Cache a prefix alone, so that the whole prompt resumes there."""
        if subject.far_tokens is None:
            return
        yield (self._ask(subject.name, "fill", subject.far_tokens, output_tokens=1, sighting=0),)
        yield (self._judged(subject, "far", 0),)

    def _other_session(self, subject: Subject, number: int) -> Ask:
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
