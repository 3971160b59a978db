"""What has to be asked to know whether answers survive the cache: hit it, empty it, fill it again.

A few prompts asked three times show where hits resume. The other prompts are then given lengths that end right behind a
resume point, since a spoilt state shows most in the first tokens after it. Prompts are handled in cycles: fill all,
evict once, return all, evict again, return or refill by another session.

Arms of a prompt: `virgin` cold answers (alone), `cotraffic-cold`, `far` (resumed about 512 tokens earlier), `hit`,
`cotraffic-hit`, `returned` (first after the eviction), `refilled`, `refilled-decode` (after decoding brought its last
block back), `refilled-together` (after other sessions brought back several short prompts at once), `refilled-fork`
(after another session brought it back and went on: its latents reach deeper than the state that is kept before its
end), `returned-again`, `partial` (first after an eviction during which its beginning was asked for again and again, so
that only the rest was evicted); `fill` and `kept` requests only prepare the cache. `stepped` is the cold
answer to all but the last token of a prompt: the model's first token becomes the prompt's last, so that a cold run took
it in by one step, right behind the resume point, as a hit does. Sentinels are prompts whose turning cold proves that a
flood has evicted everything used before it. `short` prompts are below any block, so they are cold whenever they are
asked: what a slot kept of its last tenant shows there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from workloads.eviction_probes import probe_waves, shape_seen
from workloads.eviction_requests import Requests
from workloads.eviction_shape import EvictionOptions, Shape, Subject, shape_prompt, shape_sentinel
from workloads.material import Material
from workloads.phases import Past
from workloads.plan import Ask, Flush, Marker, Observation, Scrape
from workloads.waves import Phase, Wave, Waves

NAME = "eviction"
VERSION = 5
AT_ONCE = 4
FLOOD_STEPS = 5
# So often is a beginning asked for while a flood of the cache's size goes by.
TOUCHES = 4
# Prompts whose end is so near behind a resume point return by a fork: there a state that lags behind shows most.
FORK_TAILS = (1, 2)


def eviction(material: Material, options: EvictionOptions) -> Waves:
    """The plan of one round."""
    asking = _Asking(material, options)
    phases: list[Phase] = [asking.probes]
    for cycle in range(options.cycles):
        phases += [asking.leads(cycle), asking.steps(cycle)]
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
        key=ask.key,
        outcome="ok",
        prompt_tokens=length,
        cached_tokens=(length - 1) // 64 * 64 if warm else 0,
        token_ids=tuple(range(ask.max_tokens)) if ask.arm in ("lead", "stepped") else None,
    )


_Part: TypeAlias = Callable[[int, Shape, Sequence[Subject]], Iterator[Wave]]


class _Asking:
    """Makes the waves of each phase."""

    def __init__(self, material: Material, options: EvictionOptions) -> None:
        self._material = material
        self._options = options
        self._requests = Requests(material, options)

    # -- phases

    def probes(self, past: Past) -> tuple[Wave, ...]:
        """A few lengths, each until it is a hit."""
        return probe_waves(self._requests, self._options)

    def in_cycle(self, cycle: int, part: _Part) -> Phase:
        """A part of the plan for the prompts of one cycle; nothing if hits were never seen."""

        def phase(past: Past) -> tuple[Wave, ...]:
            shape = self.shape(past)
            if shape is None:
                return ()
            return tuple(
                part(cycle, shape, [self._requests.written(each, past) for each in self._subjects(cycle, shape)])
            )

        return phase

    def leads(self, cycle: int) -> Phase:
        """What the model writes before the last token of some prompts."""

        def phase(past: Past) -> tuple[Wave, ...]:
            shape = self.shape(past)
            subjects = () if shape is None else self._subjects(cycle, shape)
            return tuple((self._requests.lead(subject),) for subject in subjects if subject.decoded)

        return phase

    def steps(self, cycle: int) -> Phase:
        """Cold answers in which the last token of a prompt is a decoding step."""

        def phase(past: Past) -> tuple[Wave, ...]:
            shape = self.shape(past)
            subjects = () if shape is None else self._subjects(cycle, shape)
            return tuple((self._requests.stepped(subject, past),) for subject in subjects if subject.stepped)

        return phase

    def fill(self, cycle: int, shape: Shape, subjects: Sequence[Subject]) -> Iterator[Wave]:
        """Cold answers first, then the far resume, then hits; where nothing else is cold, the first one fills."""
        yield (Marker(key=f"{self._options.name}/c{cycle}/fill", text="fill"),)
        for subject in subjects:
            yield (self._requests.judged(subject, "virgin", 0, cold=True),)
            if self._requests.can_be_cold:
                yield (self._requests.judged(subject, "virgin", 1, cold=True),)
            if self._options.salt:
                yield from self._requests.far(subject, shape.sightings)
            for extra in range(shape.sightings - 1):
                yield (self._requests.judged(subject, "fill", 10 + extra),)
            for number in range(2):
                yield from self._counted(subject, "hit", number)
            yield from self._requests.short(subject, shape, 0)

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
        yield self._requests.judged(subject, "virgin", 0, cold=True)
        yield from (self._requests.judged(subject, "fill", extra) for extra in range(shape.sightings))
        yield self._requests.judged(subject, "hit", 0)

    def traffic(self, cycle: int, shape: Shape, subjects: Sequence[Subject]) -> Iterator[Wave]:
        """Several at once: cold ones, then hits between cold strangers."""
        if not self._requests.can_be_cold:
            return
        for start in range(0, len(subjects), AT_ONCE):
            group = subjects[start : start + AT_ONCE]
            yield tuple(self._requests.judged(subject, "cotraffic-cold", 0, cold=True) for subject in group)
            strangers = [self._requests.stranger(f"c{cycle}/stranger{start + i}", "traffic") for i in range(2)]
            yield (*strangers, *(self._requests.judged(subject, "cotraffic-hit", 0) for subject in group))

    def evictions(self, cycle: int, number: int) -> list[Phase]:
        """Empty the cache natively, or flood it in growing steps until a sentinel is cold."""
        key = f"{self._options.name}/c{cycle}/evict{number}"
        marker = Marker(key=key, text="flood" if self._floods(cycle, number) else "flush")
        if not self._floods(cycle, number):
            return [lambda past: ((marker,), (Flush(key=f"{key}/flush"),)) if self.shape(past) else ()]
        return [self._flood(cycle, number, step) for step in range(FLOOD_STEPS)]

    def come_back(self, cycle: int, shape: Shape, subjects: Sequence[Subject]) -> Iterator[Wave]:
        """Short prompts are brought back together; the others return, and each is asked once more.

        A few at a time, so that what returns does not displace them before that.
        """
        yield from self._together(cycle, shape, [each for each in subjects if each.packed])
        alone = [each for each in subjects if not each.packed]
        for start in range(0, len(alone), AT_ONCE):
            group = alone[start : start + AT_ONCE]
            for subject in group:
                yield from self._counted(subject, "returned")
                yield from self._requests.short(subject, shape, 1)
            for subject in group:
                further = range(shape.sightings - 1)
                yield from ((self._requests.judged(subject, "fill", 20 + extra),) for extra in further)
                yield from self._counted(subject, "refilled")

    def _together(self, cycle: int, shape: Shape, subjects: Sequence[Subject]) -> Iterator[Wave]:
        """Other sessions at once, behind a longer stranger whose prefill they all arrive in; then each alone."""
        requests = self._requests
        for start in range(0, len(subjects), AT_ONCE):
            group = subjects[start : start + AT_ONCE]
            for extra in range(shape.sightings):
                leader = requests.stranger(f"c{cycle}/leader{start}.{extra}", "traffic", uneven=True)
                yield (leader, *(requests.other_session(subject, extra) for subject in group))
            for subject in group:
                yield from self._counted(subject, "refilled-together")
                yield from requests.short(subject, shape, 1)

    def come_back_again(self, cycle: int, shape: Shape, subjects: Sequence[Subject]) -> Iterator[Wave]:
        """Some return a second time; prefixes of others are brought back by decoding, another session, or far back.

        Without salt this is the one chance of a resume from far back, so most of them get it. Where beginnings were
        kept, all that have one return.
        """
        requests = self._requests
        kept = self._kept(cycle, subjects)
        for subject in kept:
            yield from self._counted(subject, "partial")
        subjects = [each for each in subjects if each not in kept]
        for subject in (each for each in subjects if each.decoded):
            yield from (
                (replace(ask, key=f"{ask.key}/{i}"),)
                for i in range(shape.sightings)
                for ask in [requests.decode_fill(subject)]
            )
            yield from self._counted(subject, "refilled-decode")
        for number, subject in enumerate(each for each in subjects if not each.decoded):
            if self._options.salt:
                yield from self._salted_again(subject, shape)
            elif number % 3 == 0:
                yield from self._counted(subject, "returned-again")
            else:
                yield from requests.far(subject, shape.sightings)

    def _salted_again(self, subject: Subject, shape: Shape) -> Iterator[Wave]:
        if subject.packed:
            yield from self._counted(subject, "returned")
        elif subject.labels["tail"] in FORK_TAILS:
            for extra in range(shape.sightings):
                yield (self._requests.other_session(subject, extra, further_tokens=shape.rule.step),)
            yield from self._counted(subject, "refilled-fork")
        else:
            yield from self._counted(subject, "returned-again")

    def _counted(self, subject: Subject, arm: str, number: int = 0) -> Iterator[Wave]:
        """A request alone between two looks at the server's counters."""
        ask = self._requests.judged(subject, arm, number)
        yield (Scrape(key=f"{ask.key}/before"),)
        yield (ask,)
        yield (Scrape(key=f"{ask.key}/after"),)

    def _touches(self, cycle: int, number: int, past: Past, shape: Shape, key: str) -> tuple[Wave, ...]:
        """Beginnings that are kept through a flood, each asked for once more."""
        if number == 0:
            return ()
        subjects = [self._requests.written(each, past) for each in self._subjects(cycle, shape)]
        return tuple((self._requests.beginning(each, f"kept/{key}"),) for each in self._kept(cycle, subjects))

    def _kept(self, cycle: int, subjects: Sequence[Subject]) -> list[Subject]:
        """Prompts of which the second flood of the last cycle leaves the beginning."""
        if cycle != self._options.cycles - 1 or not self._floods(cycle, 1) or not self._options.salt:
            return []
        return [each for each in subjects if each.far_tokens is not None and not each.decoded]

    # -- what was seen

    def shape(self, past: Past) -> Shape | None:
        """Where hits resume; None if no prompt was ever a hit."""
        return shape_seen(self._options, past)

    # -- prompts

    def _sentinel(self, cycle: int, number: int, step: int, shape: Shape) -> Subject:
        name = f"{self._options.name}/s{cycle}.{number}.{step}"
        return shape_sentinel(self._options, name, shape, exact=self._material.exact)

    def _members(self, cycle: int) -> range:
        """The last cycle has the most: what is done in it alone needs them."""
        return range(self._options.cycles - 1 - cycle, self._options.prompts, self._options.cycles)

    def _subjects(self, cycle: int, shape: Shape) -> list[Subject]:
        exact, pack = self._material.exact, self._options.salt
        return [shape_prompt(self._options, i, shape, exact=exact, pack=pack) for i in self._members(cycle)]

    # -- floods

    def _floods(self, cycle: int, number: int) -> bool:
        """Whether this eviction is a flood: the only means there is, or, once, to see eviction by pressure too."""
        if not self._options.flush:
            return True
        known = self._options.cache_tokens
        last = cycle == self._options.cycles - 1
        return last and known is not None and 2 * known <= self._options.flood_tokens

    def _flood(self, cycle: int, number: int, step: int) -> Phase:
        """One step of a flood, and the next sentinel; nothing once one was cold or the limit is reached."""
        first = self._options.cache_tokens or 4 * self._options.longest_tokens * len(self._members(cycle))
        before = [min(self._options.flood_tokens, int(first * 1.1 * 2**i)) for i in range(step)]
        wanted = min(self._options.flood_tokens, int(first * 1.1 * 2**step)) - (before[-1] if before else 0)
        requests = -(-wanted // self._options.longest_tokens)
        every = max(1, int(first / TOUCHES / self._options.longest_tokens / AT_ONCE))

        def phase(past: Past) -> tuple[Wave, ...]:
            shape = self.shape(past)
            sentinels = [] if shape is None else [self._sentinel(cycle, number, i, shape) for i in range(step + 1)]
            cold = any(past.cached(f"{one.name}/sentinel/0") == 0 for one in sentinels[:-1])
            if shape is None or cold or wanted <= 0:
                return ()
            strangers = [
                self._requests.stranger(f"c{cycle}/flood{number}.{step}.{i}", "flood") for i in range(requests)
            ]
            waves: list[Wave] = []
            for count, start in enumerate(range(0, len(strangers), AT_ONCE), 1):
                waves.append(tuple(strangers[start : start + AT_ONCE]))
                if count % every == 0:
                    waves += self._touches(cycle, number, past, shape, f"{step}.{count}")
            marker = Marker(key=f"{self._options.name}/c{cycle}/flood{number}.{step}", text="flood")
            return ((marker,), *waves, (self._requests.judged(sentinels[-1], "sentinel", 0),))

        return phase
