"""What has to be asked to know whether evicted prompts come back from a second tier, and come back right.

Prompts that end right behind a resume point are answered cold and from the device; strangers then overfill the device;
the prompts return, are asked once more, and return after another flood. Arms are those of the eviction plan: `virgin`,
`far`, `hit`, `returned`, `refilled`, `returned-again`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from workloads.eviction_probes import probe_waves, shape_seen
from workloads.eviction_requests import Requests
from workloads.eviction_shape import EvictionOptions, Shape, Subject, shape_prompt
from workloads.material import Material
from workloads.phases import Past
from workloads.plan import Marker, Scrape
from workloads.waves import Phase, Wave, Waves

NAME = "tiers"
VERSION = 1
AT_ONCE = 4
# Of what the device holds: one flood more than overfills it.
FLOOD_SHARE = 1.3


_Part: TypeAlias = Callable[[Shape, Sequence[Subject]], Iterator[Wave]]


def tiers(material: Material, options: EvictionOptions) -> Waves:
    """The plan of one round; `options.flush` and `options.cycles` do not matter here."""
    asking = _Asking(material, options)
    names = [name for name in EvictionOptions.__slots__ if name != "fields"]
    parameters = {name: getattr(options, name) for name in names}
    return Waves(
        name=NAME,
        version=VERSION,
        phases=(
            lambda past: probe_waves(asking.requests, options),
            asking.of_all(asking.fill),
            asking.flood(0),
            asking.of_all(asking.come_back),
            asking.flood(1),
            asking.of_all(asking.come_back_again),
        ),
        parameters={**parameters, "material": material.seed, "token_ids": material.exact},
    )


def flood_tokens(options: EvictionOptions) -> int | None:
    """What one flood takes; None if the device holds more than a flood may cost."""
    filled = options.prompts * options.longest_tokens
    wanted = int(FLOOD_SHARE * (options.cache_tokens if options.cache_tokens is not None else 4 * filled))
    return wanted if wanted <= options.flood_tokens else None


class _Asking:
    def __init__(self, material: Material, options: EvictionOptions) -> None:
        self._material = material
        self._options = options
        self.requests = Requests(material, options)

    def of_all(self, part: _Part) -> Phase:
        """A part of the plan for every prompt; nothing if hits were never seen or a flood would cost too much."""

        def phase(past: Past) -> tuple[Wave, ...]:
            shape = shape_seen(self._options, past)
            return () if shape is None or flood_tokens(self._options) is None else tuple(part(shape, self._all(shape)))

        return phase

    def fill(self, shape: Shape, subjects: Sequence[Subject]) -> Iterator[Wave]:
        """Cold answers, the far resume, then hits from the device."""
        for subject in subjects:
            yield (self.requests.judged(subject, "virgin", 0, cold=True),)
            if self.requests.can_be_cold:
                yield (self.requests.judged(subject, "virgin", 1, cold=True),)
            if self._options.salt:
                yield from self.requests.far(subject, shape.sightings)
            for extra in range(shape.sightings - 1):
                yield (self.requests.judged(subject, "fill", 10 + extra),)
            yield from ((self.requests.judged(subject, "hit", number),) for number in range(2))

    def flood(self, number: int) -> Phase:
        """Strangers, until the device must have let go of everything before them."""

        def phase(past: Past) -> tuple[Wave, ...]:
            wanted = flood_tokens(self._options)
            if shape_seen(self._options, past) is None or wanted is None:
                return ()
            count = -(-wanted // self._options.longest_tokens)
            strangers = [self.requests.stranger(f"flood{number}.{index}", "flood") for index in range(count)]
            waves = [tuple(strangers[i : i + AT_ONCE]) for i in range(0, len(strangers), AT_ONCE)]
            return ((Marker(key=f"{self._options.name}/flood{number}", text="flood"),), *waves)

        return phase

    def come_back(self, shape: Shape, subjects: Sequence[Subject]) -> Iterator[Wave]:
        """All return, with the counters read before and after each; then from the device again."""
        yield (Scrape(key=f"{self._options.name}/returning"),)
        for subject in subjects:
            yield (self.requests.judged(subject, "returned", 0),)
            yield (Scrape(key=f"{subject.name}/returned/counters"),)
        yield from ((self.requests.judged(subject, "refilled", 0),) for subject in subjects)

    def come_back_again(self, shape: Shape, subjects: Sequence[Subject]) -> Iterator[Wave]:
        """All return a second time: what was restored once went out once more."""
        yield (Scrape(key=f"{self._options.name}/returning-again"),)
        for subject in subjects:
            yield (self.requests.judged(subject, "returned-again", 0),)
            yield (Scrape(key=f"{subject.name}/returned-again/counters"),)

    def _all(self, shape: Shape) -> list[Subject]:
        exact = self._material.exact
        return [shape_prompt(self._options, index, shape, exact=exact) for index in range(self._options.prompts)]
