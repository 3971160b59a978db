"""What has to be asked to know how many drafts are accepted: classes of content, cold and hit, later turns, deep texts.

Requests go one after the other, with the server's counters read after each. Where a flood is allowed, strangers then
overfill the device and the texts return. Labels: `content` (the class), `arm`, and `pair`, which the arms of one text
have in common. Texts are made by this package under its own licence, but for
documentation and source, which are found on the machine (Python's own, under the PSF licence).
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from workloads.classes import CLASSES
from workloads.material import Material, Segment
from workloads.phases import Past
from workloads.plan import Ask, Json, Scrape, Sleep, Step, TextPrompt
from workloads.text import cut_to_tokens, paragraphs, seeded
from workloads.waves import Wave, Waves

NAME = "mtp"
VERSION = 3
COLD, HIT, LATER, STOPPED, DEEP, WATCHED = "cold", "hit", "later", "stopped", "deep", "watched"
SAMPLED, FLOOD, RETURNED = "sampled", "flood", "returned"
# Arms that serve identities alone, the one of another temperature, and strangers: no property of the content.
LEFT_OUT = frozenset({STOPPED, WATCHED, SAMPLED, FLOOD})
WATCHED_TOKENS = 384
WATCH_NS = 60_000_000
WATCHES = 12
FEWEST_IDS = 8


def _random_letters(rng: random.Random, chars: int) -> str:
    words = ("".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 9))) for _ in range(chars // 3 + 1))
    return " ".join(words)[: max(1, chars)]


def _repeated(rng: random.Random, chars: int) -> str:
    """One entry of a register again and again: going on is copying it, for a model with instructions or without.

    An entry, because small models copy keys and numbers that do not copy prose.
    """
    entry = f"key K{rng.randrange(10, 100)} is {rng.randrange(1000, 10000)}. "
    return entry * (chars // len(entry) + 1)


# From hard to draft to easy, but that a small model makes its identifiers as it likes.
CONTENTS: Mapping[str, Callable[[random.Random, int], str]] = {
    "random": _random_letters,
    "identifiers": CLASSES["identifiers"][0],
    "prose": paragraphs,
    "code": CLASSES["code"][0],
    "copy": _repeated,
}
DOCUMENTATION, SOURCE = "documentation", "source"
# Real texts, where the material has them: their acceptance is no matter of how this package makes texts.
FOUND = (DOCUMENTATION, SOURCE)
ALL_CONTENTS = (*CONTENTS, *FOUND)


@dataclass(frozen=True, slots=True, kw_only=True)
class MtpOptions:
    """Sizes of a plan.

    name: what prompts of this round are called. prompts: of each class. tokens: of a text; deep_tokens: of a deep one.
    fields: of every request, for the server's own account of drafts. endless: keeps the watched answer from ending.
    flood_tokens: that overfill the device, in prompts of deep_tokens; 0 asks nothing of the kind.
    """

    name: str = "r0"
    prompts: int = 8
    tokens: int = 192
    deep_tokens: int = 720
    output_tokens: int = 64
    fields: Mapping[str, Json] = field(default_factory=dict)
    endless: Mapping[str, Json] = field(default_factory=dict)
    flood_tokens: int = 0

    def __post_init__(self) -> None:
        if self.prompts < 1 or self.tokens < 1 or self.deep_tokens <= self.tokens:
            raise ValueError("at least 1 prompt of each class, and deep ones longer than the others")
        if self.flood_tokens < 0:
            raise ValueError("a flood of at least 0 tokens")


def mtp(material: Material, options: MtpOptions) -> Waves:
    """The plan: every text cold and at once again, every second one with a later turn, ends amid drafts, deep texts;
    the texts again behind a flood."""
    return Waves(
        name=NAME,
        version=VERSION,
        phases=(
            lambda past: tuple(_texts(material, options)),
            lambda past: tuple(_later(material, options, past)),
            lambda past: tuple(_stopped(options, past)),
            lambda past: tuple(_deep(material, options)),
            lambda past: tuple(_sampled(options, past)),
            lambda past: _watched(material, options),
            lambda past: tuple(_flood(material, options)),
            lambda past: tuple(_returned(options, past)),
        ),
        parameters={
            "seed": material.seed,
            "name": options.name,
            "classes": list(_contents(material, 0)),
            "prompts": options.prompts,
            "tokens": options.tokens,
            "deep_tokens": options.deep_tokens,
            "output_tokens": options.output_tokens,
            "fields": options.fields,
            "endless": options.endless,
            "flood_tokens": options.flood_tokens,
        },
    )


def _texts(material: Material, options: MtpOptions) -> Iterator[Wave]:
    """Classes take turns, so that a drift of the server falls on all of them."""
    yield (Scrape(key=f"{options.name}/before"),)
    for index in range(options.prompts):
        for content in _contents(material, index):
            text = _text(material, options, content, index, options.tokens)
            for arm in (COLD, HIT):
                yield from _asked(options, content, index, arm, text, options.tokens)


def _later(material: Material, options: MtpOptions, past: Past) -> Iterator[Wave]:
    """The text with its own answer and more of the same kind after it; nothing where no text came."""
    for index in range(0, options.prompts, 2):
        for content in _contents(material, index):
            cold = past.seen.get(_key(options, content, index, COLD))
            if cold is None or cold.text is None:
                continue
            text = _text(material, options, content, index, options.tokens)
            more = _text(material, options, content, index + options.prompts, options.tokens // 2)
            length = options.tokens + options.output_tokens + options.tokens // 2
            yield from _asked(options, content, index, LATER, f"{text}{cold.text}\n\n{more}", length)


def _stopped(options: MtpOptions, past: Past) -> Iterator[Wave]:
    """The text again, to end on a token from the middle of its own answer, where drafts may already go on.

    Nothing where the server gives no token ids.
    """
    for cold in [ask for ask in past.asks if ask.arm == COLD]:
        seen = past.seen.get(cold.key)
        ids = seen.token_ids if seen is not None else None
        if ids is None or len(ids) < FEWEST_IDS:
            continue
        yield from _once_more(cold, STOPPED, {"stop_token_ids": [ids[len(ids) // 2]]})


def _deep(material: Material, options: MtpOptions) -> Iterator[Wave]:
    for index in range(0, options.prompts, 2):
        for content in _contents(material, index):
            number = index + 2 * options.prompts
            text = _text(material, options, content, number, options.deep_tokens)
            for arm in (DEEP, HIT):
                yield from _asked(options, content, number, arm, text, options.deep_tokens)


def _sampled(options: MtpOptions, past: Past) -> Iterator[Wave]:
    """Every second text again, drawn at temperature 1."""
    colds = [ask for ask in past.asks if ask.arm == COLD]
    for number, cold in enumerate(colds[::2]):
        yield from _once_more(cold, SAMPLED, {"temperature": 1.0, "seed": 1 + number})


def _watched(material: Material, options: MtpOptions) -> tuple[Wave, ...]:
    """One long answer with the counters read while it comes."""
    text = _text(material, options, "prose", 3 * options.prompts, options.tokens)
    ask = _ask(options, "prose", 0, WATCHED, text, options.tokens, WATCHED_TOKENS)
    ask = replace(ask, parameters={**ask.parameters, **options.endless})
    looks: list[Step] = []
    for number in range(WATCHES):
        looks += [Sleep(key=f"{ask.key}/wait{number}", duration_ns=WATCH_NS), Scrape(key=f"{ask.key}/look{number}")]
    return ((ask, *looks), (Scrape(key=f"{ask.key}/after"),))


def _flood(material: Material, options: MtpOptions) -> Iterator[Wave]:
    """Strangers, until the device must have let go of the texts."""
    for number in range(-(-options.flood_tokens // options.deep_tokens)):
        name = f"{options.name}/{FLOOD}{number}"
        prompt = material.prompt([Segment(name=name, tokens=options.deep_tokens)])
        yield (Ask(key=name, prompt=prompt, max_tokens=1, arm=FLOOD, expected_prompt_tokens=options.deep_tokens),)


def _returned(options: MtpOptions, past: Past) -> Iterator[Wave]:
    """The texts behind the flood: what is still a hit of them came back from another tier.

    The last first, which such a tier has most likely kept.
    """
    if options.flood_tokens == 0:
        return
    yield (Scrape(key=f"{options.name}/flooded"),)
    for ask in reversed([ask for ask in past.asks if ask.arm in (COLD, DEEP)]):
        yield from _once_more(ask, RETURNED, {})


def _once_more(ask: Ask, arm: str, fields: Mapping[str, Json]) -> Iterator[Wave]:
    """The same text in another arm."""
    labels, parameters = {**ask.labels, "arm": arm}, {**ask.parameters, **fields}
    again = replace(ask, key=f"{ask.session}/{arm}", arm=arm, parameters=parameters, labels=labels)
    yield (again,)
    yield (Scrape(key=f"{again.key}/counters"),)


def _contents(material: Material, index: int) -> tuple[str, ...]:
    """Classes of text number `index`: found ones take every second turn."""
    return (*CONTENTS, *(name for name in FOUND if name in material.found and index % 2 == 0))


def _cut_of(found: str) -> Callable[[random.Random, int], str]:
    """Stretches of a text from the start of any of its lines."""

    def make(rng: random.Random, chars: int) -> str:
        start = found.find("\n", rng.randrange(max(1, len(found) - 2 * chars))) + 1
        return found[start : start + max(1, chars)]

    return make


def _text(material: Material, options: MtpOptions, content: str, index: int, tokens: int) -> str:
    """A text that nothing else begins like."""
    make = CONTENTS[content] if content in CONTENTS else _cut_of(material.found[content])
    path = (material.seed, NAME, options.name, content, index)
    opening = f"{seeded(*path).getrandbits(40):010x} "
    return cut_to_tokens(lambda chars: opening + make(seeded(*path, "text"), chars), tokens, material.count)


def _asked(options: MtpOptions, content: str, index: int, arm: str, text: str, tokens: int) -> Iterator[Wave]:
    ask = _ask(options, content, index, arm, text, tokens, options.output_tokens)
    yield (ask,)
    yield (Scrape(key=f"{ask.key}/counters"),)


def _ask(options: MtpOptions, content: str, index: int, arm: str, text: str, tokens: int, output_tokens: int) -> Ask:
    pair = f"{options.name}/{content}{index}"
    return Ask(
        key=_key(options, content, index, arm),
        prompt=TextPrompt(text=text),
        max_tokens=output_tokens,
        session=pair,
        arm=arm,
        expected_prompt_tokens=tokens,
        parameters=options.fields,
        labels={"content": content, "arm": arm, "pair": pair},
    )


def _key(options: MtpOptions, content: str, index: int, arm: str) -> str:
    return f"{options.name}/{content}{index}/{arm}"
