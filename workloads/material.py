"""What prompts of checks are made of: named stretches of ordinary text, as token ids where the server takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from workloads.plan import Json, Prompt, TextPrompt, TokenPrompt
from workloads.text import CountTokens, cut_to_tokens, paragraphs, seeded

OPENING_IDS = 8
SHORTEST_RUN, LONGEST_RUN = 24, 96
FEWEST_IDS = 4 * LONGEST_RUN
FEWEST_DIFFERENT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """`tokens` tokens of the stretch called `name`: the same name gives the same text, cut where it is told."""

    name: str
    tokens: int

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"segment {self.name}: at least 1 token, got {self.tokens}")


def enough_ids(token_ids: Sequence[int]) -> bool:
    """Whether stretches made of these ids would differ from one another."""
    return len(token_ids) >= FEWEST_IDS and len(set(token_ids)) >= FEWEST_DIFFERENT


@dataclass(frozen=True, kw_only=True)
class Material:
    """Stretches of text without end, one for every name.

    token_ids: ordinary text in the server's own ids, enough of them; None where prompts have to be text, whose
    lengths are then as good as `count`. seed: another seed gives other stretches under the same names. found: real
    texts of this machine by what they are, for plans that ask for them.
    """

    seed: Json
    count: CountTokens
    token_ids: tuple[int, ...] | None = None
    found: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.token_ids is not None and not enough_ids(self.token_ids):
            raise ValueError(f"{FEWEST_IDS} token ids are needed, {FEWEST_DIFFERENT} of them different")

    @property
    def exact(self) -> bool:
        """Whether prompts have exactly the length asked for."""
        return self.token_ids is not None

    def prompt(self, segments: Sequence[Segment]) -> Prompt:
        """The segments one after the other; no two stretches begin alike, whatever they are called."""
        if self.token_ids is None:
            return TextPrompt(text="\n\n".join(self._text(segment) for segment in segments))
        return TokenPrompt(token_ids=tuple(i for segment in segments for i in self.ids(segment.name, segment.tokens)))

    def salt(self, name: str) -> str:
        """32 hexadecimal digits for `cache_salt`, another one for every name."""
        return f"{seeded(self.seed, 'salt', name).getrandbits(128):032x}"

    def ids(self, name: str, tokens: int) -> tuple[int, ...]:
        """The first `tokens` ids of a stretch; ValueError without token ids."""
        return tuple(islice(self._stretch(name), tokens))

    @cached_property
    def _alphabet(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.token_ids))) if self.token_ids is not None else ()

    def _stretch(self, name: str) -> Iterator[int]:
        """An opening of ids drawn one by one, then runs of the ordinary text from anywhere in it."""
        if self.token_ids is None:
            raise ValueError("there are no token ids: the server was not found to take them")
        rng = seeded(self.seed, "material", name)
        yield from (rng.choice(self._alphabet) for _ in range(OPENING_IDS))
        while True:
            length = rng.randint(SHORTEST_RUN, LONGEST_RUN)
            start = rng.randrange(len(self.token_ids) - length)
            yield from self.token_ids[start : start + length]

    def _text(self, segment: Segment) -> str:
        """Text of about as many tokens, in whole words."""
        opening = f"[{seeded(self.seed, 'material', segment.name, 'opening').getrandbits(64):016x}] "

        def make(chars: int) -> str:
            return opening + paragraphs(seeded(self.seed, "material", segment.name), chars)

        return cut_to_tokens(make, segment.tokens, self.count)
