"""What two servers are both asked, to know whether they answer alike: cold, and from the cache.

Arms are those of the eviction plan: `virgin` (twice, where an answer can be kept from the cache), `fill`, `hit`
(twice). Every second prompt, by its label `round`, confirms what the others show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from workloads.eviction_documents import document_of_tokens
from workloads.material import Material, Segment
from workloads.plan import Ask, Json, Prompt, TextPrompt
from workloads.waves import Wave, Waves

NAME = "parity"
VERSION = 1
VIRGIN, FILL, HIT = "virgin", "fill", "hit"
FILLS = 2
REPLICATES = 2
ANSWER_TOKENS = 16
# Tokens behind the end of a block, where a resume shows most; two prompts each, one in either half.
TAILS = (1, 2, 1, 3, 1, 8, 2, 37)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityOptions:
    """prompts: of both halves together. longest_tokens: of any prompt. block_tokens: where hits may resume. salt,
    bypass: what keeps an answer from the cache. side: what salts are made from beside the content, so that two ways to
    one server do not share them. fields: body fields that ask for log-probabilities.
    """

    prompts: int
    longest_tokens: int = 768
    block_tokens: int = 64
    salt: bool = False
    bypass: bool = False
    side: str = "here"
    fields: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.prompts < 2 or self.longest_tokens < 1:
            raise ValueError("parity needs a prompt in each half")


def parity(material: Material, options: ParityOptions) -> Waves:
    """The plan, one request after the other."""
    names = [name for name in ParityOptions.__slots__ if name != "fields"]
    return Waves(
        name=NAME,
        version=VERSION,
        phases=(lambda past: tuple(_waves(material, options)),),
        parameters={**{name: getattr(options, name) for name in names}, "material": material.seed},
    )


def _waves(material: Material, options: ParityOptions) -> Iterator[Wave]:
    for index in range(options.prompts):
        tokens = _tokens(index, options)
        prompt = _prompt(material, index, tokens)
        for arm, count in (
            (VIRGIN, REPLICATES if options.salt or options.bypass else 1),
            (FILL, FILLS),
            (HIT, REPLICATES),
        ):
            for number in range(count):
                yield (_ask(material, options, index, prompt, tokens, arm, number),)


def _tokens(index: int, options: ParityOptions) -> int:
    """A whole number of blocks and a tail; both prompts of two neighbours have the same."""
    turn = index // 2
    tail = TAILS[turn % len(TAILS)]
    most = max(1, (options.longest_tokens - tail) // options.block_tokens)
    return min(options.longest_tokens, (1 + (most - 1 - turn) % most) * options.block_tokens + tail)


def _prompt(material: Material, index: int, tokens: int) -> Prompt:
    if material.exact:
        return material.prompt([Segment(name=f"parity{index}", tokens=tokens)])
    return TextPrompt(text=document_of_tokens(0, material.seed, index, tokens=tokens, count=material.count))


def _ask(
    material: Material, options: ParityOptions, index: int, prompt: Prompt, tokens: int, arm: str, number: int
) -> Ask:
    key = f"parity{index}/{arm}/{number}"
    own: Mapping[str, Json] = {}
    if arm == VIRGIN and options.salt:
        own = {"cache_salt": material.salt(f"{options.side}/{key}")}
    elif arm == VIRGIN and options.bypass:
        own = {"cache_prompt": False}
    return Ask(
        key=key,
        prompt=prompt,
        max_tokens=ANSWER_TOKENS if arm != FILL else 1,
        session=f"parity{index}",
        arm=arm,
        expected_prompt_tokens=tokens,
        parameters={**options.fields, **own},
        labels={"round": index % 2, "needle": False, "aligned": False},
    )
