"""What has to be asked to know how a server counts cached tokens: repeats, lengths, shared prefixes, turns, twins.

Requests go one after the other. Every one carries in its labels what its judge has to know: the family, the prompt's
name, which sighting of it this is, and how many tokens it has in common with anything sent before (`may_hit`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from workloads.beginnings import common_length, with_another_beginning, with_one_change
from workloads.granularity import boundary_lengths, fit
from workloads.material import Material, Segment
from workloads.phases import Past, Phased
from workloads.plan import Ask, Json, Observation, Prompt, Scrape, Step, TextPrompt, TokenPrompt
from workloads.text import spread_fraction

NAME = "cached-tokens"
VERSION = 1
LADDER_SIGHTINGS = 4
SIGHTINGS = 3
LONGEST_SPACING = 4
FIRST_RUNG = 1024
LONGEST_RUNG = 16384
TURNS = 6
FORK_SHARES = (0.25, 0.5, 0.75, 0.95)
PREFIX_TAILS = 4
STREAM_PATTERN = (True, False, False, True, True, False)
SALTED = 2
TWINS = 3
VARIANTS = 2
CROSSED_SHARES = (0.25, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedTokensOptions:
    """Sizes of a plan.

    name: what prompts of this round are called, so that another round's are fresh. lengths: random lengths that look
    for the granularity. boundaries: lengths at its boundaries. longest_tokens: of any prompt. marks: lengths that the
    server itself calls special (block, chunk). salt: ask with a fresh `cache_salt` too. output_tokens: of every
    answer.
    """

    name: str = "r0"
    lengths: int = 8
    boundaries: int = 8
    longest_tokens: int = LONGEST_RUNG
    marks: tuple[int, ...] = ()
    salt: bool = True
    output_tokens: int = 4

    def __post_init__(self) -> None:
        if self.longest_tokens < FIRST_RUNG // 2:
            raise ValueError(f"a longest prompt of {self.longest_tokens} tokens is too short to look for a cache")


def cached_tokens(material: Material, options: CachedTokensOptions) -> Phased:
    """The plan."""
    asking = _Asking(material, options)
    ladder = [_rung(asking, index) for index in range(len(_rungs(options.longest_tokens)))]
    return Phased(
        name=NAME,
        version=VERSION,
        phases=(
            asking.smallest,
            *ladder,
            asking.spacing,
            asking.lengths,
            asking.boundaries,
            asking.prefixes,
            asking.turns,
            asking.forks,
            asking.twins,
            asking.streams,
            asking.variants,
        ),
        parameters={
            **{name: getattr(options, name) for name in CachedTokensOptions.__slots__},
            "seed": material.seed,
            "token_ids": material.exact,
        },
    )


def imagined(ask: Ask) -> Observation:
    """The answer of a server that reuses everything but the last token, so that the plan takes its usual course."""
    length, may_hit = ask.expected_prompt_tokens, ask.labels["may_hit"]
    cached = None
    if length is not None and isinstance(may_hit, int):
        cached = max(0, min(length - 1, may_hit))
    return Observation(key=ask.key, outcome="ok", prompt_tokens=length, cached_tokens=cached)


def _rungs(longest_tokens: int) -> tuple[int, ...]:
    rungs = []
    length = min(FIRST_RUNG, longest_tokens)
    while length <= longest_tokens:
        rungs.append(length)
        length *= 2
    return tuple(rungs)


def _rung(asking: _Asking, index: int) -> Callable[[Past], tuple[Step, ...]]:
    return lambda past: asking.rung(past, index)


@dataclass(slots=True)
class _Batch:
    """The steps of one phase while they are made."""

    past: Past
    steps: list[Step] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)

    def earlier(self) -> Iterator[Ask]:
        yield from self.past.asks
        yield from self.asks

    def sightings(self, session: str) -> int:
        """How often the prompt was asked so far."""
        return sum(ask.session == session for ask in self.earlier())


class _Asking:
    """Makes the steps of each phase."""

    def __init__(self, material: Material, options: CachedTokensOptions) -> None:
        self._material = material
        self._options = options
        self._rung_lengths = _rungs(options.longest_tokens)

    # -- phases

    def smallest(self, past: Past) -> tuple[Step, ...]:
        """One request of next to nothing: what its length exceeds is the server's own head and tail."""
        batch = _Batch(past)
        batch.steps.append(Scrape(key="before"))
        self._ask(batch, "smallest", "smallest", [Segment(name=self._named("smallest"), tokens=1)])
        return tuple(batch.steps)

    def rung(self, past: Past, index: int) -> tuple[Step, ...]:
        """The same long prompt again and again; twice as long if the one before was never a hit."""
        if index > 0 and self._hit_length(past) is not None:
            return ()
        batch = _Batch(past)
        segments = [Segment(name=self._named(f"rung{index}"), tokens=self._rung_lengths[index])]
        for _ in range(LADDER_SIGHTINGS):
            self._ask(batch, f"rung{index}", "repeat", segments)
        return tuple(batch.steps)

    def spacing(self, past: Past) -> tuple[Step, ...]:
        """A prompt twice, with 0 to 3 others between: servers that take turns meet it again at their own spacing."""
        length = self._hit_length(past)
        if length is None:
            return ()
        batch = _Batch(past)
        for spacing in range(1, LONGEST_SPACING + 1):
            segments = [Segment(name=self._named(f"spacing{spacing}"), tokens=length)]
            self._ask(batch, f"spacing{spacing}", "spacing", segments, spacing=spacing)
            for number in range(spacing - 1):
                filler = f"filler{spacing}.{number}"
                self._ask(batch, filler, "filler", [Segment(name=self._named(filler), tokens=32)])
            self._ask(batch, f"spacing{spacing}", "spacing", segments, spacing=spacing)
        return tuple(batch.steps)

    def lengths(self, past: Past) -> tuple[Step, ...]:
        """Prompts of all lengths, each often enough to be a hit wherever caches are kept apart.

        Also where no hit was reported: time may tell another story.
        """
        length = self._hit_length(past) or self._rung_lengths[0]
        shortest, longest = length // 2, min(self._options.longest_tokens, length * 3 // 2)
        chosen = [
            shortest + round((longest - shortest) * spread_fraction(index, 0.37))
            for index in range(self._options.lengths)
        ]
        return self._repeated(past, "length", chosen)

    def boundaries(self, past: Past) -> tuple[Step, ...]:
        """Prompts right at the boundaries of what the lengths so far suggest, and of what the server names itself."""
        rule = fit(self._points(past))
        if rule is None:
            return ()
        length = self._hit_length(past) or rule.step
        longest = min(self._options.longest_tokens, max(2 * length, 3 * rule.step))
        chosen = boundary_lengths(rule, min(length // 2, rule.step), longest, self._options.boundaries)
        marked = [mark + delta for mark in self._options.marks for delta in (0, 1) if mark + delta <= longest]
        return self._repeated(past, "boundary", [*chosen, *(mark for mark in marked if mark >= 2)])

    def prefixes(self, past: Past) -> tuple[Step, ...]:
        """One prefix with other tails, at prefixes of growing length."""
        length = self._hit_length(past)
        if length is None:
            return ()
        batch = _Batch(past)
        rule = fit(self._points(past))
        step = rule.step if rule is not None and rule.step > 1 else 16
        sizes = sorted({size for times in (1, 2, 4, 8, 16) if (size := step * times + 1) <= length} | {length})
        for size in sizes[-5:]:
            for number in range(PREFIX_TAILS * self._domains(past)):
                prefix = Segment(name=self._named(f"prefix{size}"), tokens=size)
                tail = Segment(name=self._named(f"prefix{size} tail{number}"), tokens=self._tail(step))
                self._ask(batch, f"prefix{size}", "prefix", [prefix, tail], prefix=size)
        return tuple(batch.steps)

    def turns(self, past: Past) -> tuple[Step, ...]:
        """A conversation that grows by the same amount every turn."""
        length = self._hit_length(past)
        if length is None:
            return ()
        batch = _Batch(past)
        segments = [Segment(name=self._named("turns opening"), tokens=length)]
        growth = max(32, min(256, (self._options.longest_tokens - length) // TURNS))
        for turn in range(TURNS):
            for _ in range(self._domains(past)):
                self._ask(batch, "turns", "turn", list(segments), turn=turn, growth=growth)
            segments.append(Segment(name=self._named(f"turn{turn}"), tokens=growth))
            if sum(segment.tokens for segment in segments) > self._options.longest_tokens:
                break
        return tuple(batch.steps)

    def forks(self, past: Past) -> tuple[Step, ...]:
        """Another continuation from several depths of a prompt that the server knows well."""
        length = self._hit_length(past)
        if length is None:
            return ()
        batch = _Batch(past)
        name = self._named(f"rung{self._rung_lengths.index(length)}")
        for share in FORK_SHARES:
            depth = round(share * length)
            for number in range(self._sightings(past)):
                tail = Segment(name=self._named(f"fork{depth} tail{number}"), tokens=self._tail(64))
                segments = [Segment(name=name, tokens=depth), tail]
                self._ask(batch, f"fork{depth}", "fork", segments, prefix=depth, needs=name)
        return tuple(batch.steps)

    def twins(self, past: Past) -> tuple[Step, ...]:
        """What must not hit: the well-known prompt under another beginning, with a change, under a salt of its own."""
        length = self._hit_length(past)
        if length is None:
            return ()
        batch = _Batch(past)
        name = self._named(f"rung{self._rung_lengths.index(length)}")
        known = self._material.prompt([Segment(name=name, tokens=length)])
        for number in range(TWINS):
            twin = with_another_beginning(known, self._material, self._named(f"twin{number}"))
            self._send(batch, f"twin{number}", "twin", twin, length, labels={"needs": name})
        self._crossed(past, batch, known, name, length)
        for number in range(SALTED if self._options.salt else 0):
            salt = self._material.salt(self._named(f"salted{number}"))
            self._send(batch, f"salted{number}", "salted", known, length, {"cache_salt": salt}, labels={"needs": name})
        return tuple(batch.steps)

    def _crossed(self, past: Past, batch: _Batch, known: Prompt, name: str, length: int) -> None:
        """Known blocks in a new order, and known blocks but for one token: both are new from the first change on."""
        if not isinstance(known, TokenPrompt):
            return
        other = self._material.prompt([Segment(name=self._named("spacing1"), tokens=length)])
        assert isinstance(other, TokenPrompt)
        rule = fit(self._points(past))
        step = rule.step if rule is not None and 1 < rule.step < length // 2 else 64
        for number, share in enumerate(CROSSED_SHARES):
            place = max(1, round(share * length) // step) * step
            labels: dict[str, Json] = {"needs": [name, self._named("spacing1")], "place": place}
            crossed = TokenPrompt(token_ids=(*other.token_ids[:place], *known.token_ids[place:]))
            self._send(batch, f"crossed{number}", "twin", crossed, length, labels=labels)
            self._send(batch, f"changed{number}", "twin", with_one_change(known, place - 1), length, labels=labels)

    def streams(self, past: Past) -> tuple[Step, ...]:
        """The well-known prompt streamed and whole, by turns that no pair of servers can share out evenly."""
        length = self._hit_length(past) or self._rung_lengths[0]
        batch = _Batch(past)
        name = f"rung{self._rung_lengths.index(length)}"
        segments = [Segment(name=self._named(name), tokens=length)]
        for stream in STREAM_PATTERN * self._domains(past):
            self._ask(batch, name, "stream", segments, stream=stream)
        return tuple(batch.steps)

    def variants(self, past: Past) -> tuple[Step, ...]:
        """The well-known prompt with usage in every event, and for two answers at once."""
        length = self._hit_length(past)
        if length is None:
            return ()
        batch = _Batch(past)
        name = f"rung{self._rung_lengths.index(length)}"
        prompt = self._material.prompt([Segment(name=self._named(name), tokens=length)])
        usage: dict[str, Json] = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        for _ in range(VARIANTS):
            self._send(batch, name, "continuous", prompt, length, usage)
            self._send(batch, name, "choices", prompt, length, {"n": 2}, stream=False)
        return tuple(batch.steps)

    # -- parts

    def _repeated(self, past: Past, family: str, lengths: Sequence[int]) -> tuple[Step, ...]:
        batch = _Batch(past)
        for length in dict.fromkeys(lengths):
            segments = [Segment(name=self._named(f"{family}{length}"), tokens=length)]
            for _ in range(self._sightings(past)):
                self._ask(batch, f"{family}{length}", family, segments)
        return tuple(batch.steps)

    def _named(self, name: str) -> str:
        return f"{self._options.name}/{name}"

    def _tail(self, step: int) -> int:
        return max(32, min(256, step * 3 // 4))

    def _hit_length(self, past: Past) -> int | None:
        """The length of the first rung that became a hit; None without one."""
        for index, length in enumerate(self._rung_lengths):
            cached = [past.cached(f"{self._named(f'rung{index}')}/{number}") for number in range(LADDER_SIGHTINGS)]
            if any(count is not None and count > 0 for count in cached):
                return length
        return None

    def _sightings(self, past: Past) -> int:
        """How often a prompt has to be asked to be a hit in the end: as often as the first rung that was one took."""
        first = 0
        for index in range(len(self._rung_lengths)):
            cached = [past.cached(f"{self._named(f'rung{index}')}/{number}") for number in range(LADDER_SIGHTINGS)]
            hits = [number for number, count in enumerate(cached) if count is not None and count > 0]
            first = max(first, min(hits, default=0))
        return max(SIGHTINGS * self._domains(past), first + 1)

    def _domains(self, past: Past) -> int:
        """The smallest spacing at which a prompt was met again: so many servers take turns; 1 if none was."""
        for spacing in range(1, LONGEST_SPACING + 1):
            cached = past.cached(f"{self._named(f'spacing{spacing}')}/1")
            if cached is not None and cached > 0:
                return spacing
        return 1

    def _points(self, past: Past) -> list[tuple[int, int]]:
        """Length and cached count of prompts seen often enough."""
        points = []
        for ask in past.asks:
            seen = past.seen.get(ask.key)
            settled = isinstance(sighting := ask.labels["sighting"], int) and sighting >= SIGHTINGS - 1
            if ask.arm not in ("repeat", "length") or not settled or seen is None:
                continue
            if seen.prompt_tokens is not None and seen.cached_tokens is not None:
                points.append((seen.prompt_tokens, seen.cached_tokens))
        return points

    def _ask(
        self, batch: _Batch, name: str, arm: str, segments: Sequence[Segment], *, stream: bool = True, **labels: Json
    ) -> None:
        tokens = sum(segment.tokens for segment in segments)
        self._send(batch, name, arm, self._material.prompt(segments), tokens, stream=stream, labels=labels)

    def _send(
        self,
        batch: _Batch,
        name: str,
        arm: str,
        prompt: Prompt,
        tokens: int,
        parameters: dict[str, Json] | None = None,
        *,
        stream: bool = True,
        labels: dict[str, Json] | None = None,
    ) -> None:
        """Add one request and a reading of the counters after it."""
        session = self._named(name)
        sighting = batch.sightings(session)
        facts: dict[str, Json] = {
            "sighting": sighting,
            "may_hit": self._in_common(prompt, batch),
            "tokens": tokens,
            "exact": self._material.exact,
        }
        ask = Ask(
            key=f"{session}/{sighting}",
            prompt=prompt,
            max_tokens=self._options.output_tokens,
            session=session,
            arm=arm,
            stream=stream,
            expected_prompt_tokens=tokens,
            parameters={} if parameters is None else parameters,
            labels=facts | ({} if labels is None else labels),
        )
        batch.asks.append(ask)
        batch.steps += [ask, Scrape(key=f"{ask.key} counters")]

    def _in_common(self, prompt: Prompt, batch: _Batch) -> int:
        """Most tokens at the start that any earlier request began with too."""
        longest = max((common_length(prompt, ask.prompt) for ask in batch.earlier()), default=0)
        if isinstance(prompt, TextPrompt):
            return self._material.count(prompt.text[:longest]) if longest else 0
        return longest
