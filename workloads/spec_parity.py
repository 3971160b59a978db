"""What has to be asked to know whether drafting changes answers: greedy answers, then the same tokens one prefill each.

A continuation of one token is never drafted: asking for the token after `prompt + answer[:j]` gives what prefill alone
says of position j. Labels: `kind` ("answer", "opening", "rescored", "sampled"), `content`, `position` of a rescored
token, `clean` for positions that no rollback can have touched. Openings are answers of two tokens: clean ones alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from workloads.material import Material, Segment
from workloads.phases import Past
from workloads.plan import Ask, Json, TokenPrompt
from workloads.text import seeded
from workloads.waves import Wave, Waves

NAME = "spec-parity"
VERSION = 3
ANSWER, OPENING, RESCORED, SAMPLED = "answer", "opening", "rescored", "sampled"
# From much rollback to little: ids drawn at random, ordinary text, and a stretch that repeats itself.
CONTENTS = ("random", "text", "repeating")
SHORTEST_TOKENS, LONGEST_TOKENS = 96, 127
PERIOD_TOKENS = 12
# Position 0 comes from the prompt, position 1 from the first row of the first verify step.
CLEAN_POSITIONS = (0, 1)
FEWEST_TOKENS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecParityOptions:
    """Sizes of a plan.

    name: what prompts of this round are called. prompts: of all contents together. openings: more answers, of two
    tokens, to learn the noise of decoding from. rescored: positions of each answer, if they are to be asked for
    (rescore). sampled: answers at temperature 1; singles: more of one token, which are
    never drafted. uncut: fields that switch a server's own cuts of the distribution off. width: requests at once.
    salt / bypass: rescoring can be kept from the cache, so that it does not read what drafting left there. fields:
    log-probabilities.
    """

    name: str = "r0"
    prompts: int = 32
    openings: int = 0
    output_tokens: int = 48
    rescored: int = 10
    rescore: bool = True
    sampled: int = 32
    singles: int = 0
    uncut: Mapping[str, Json] = field(default_factory=dict)
    width: int = 4
    salt: bool = True
    bypass: bool = False
    fields: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.prompts < 1 or self.output_tokens < FEWEST_TOKENS or self.rescored < len(CLEAN_POSITIONS) + 1:
            raise ValueError("answers need some tokens, and more rescored positions than the clean ones")


def spec_parity(material: Material, options: SpecParityOptions) -> Waves:
    """The plan; prompts are token ids, because the answer's own ids have to follow them exactly."""
    return Waves(
        name=NAME,
        version=VERSION,
        phases=(
            lambda past: tuple(_answers(material, options)),
            lambda past: tuple(_rescored(material, options, past)),
            lambda past: tuple(_sampled(material, options)),
        ),
        parameters={
            "seed": material.seed,
            "name": options.name,
            "contents": list(CONTENTS),
            "prompts": options.prompts,
            "openings": options.openings,
            "output_tokens": options.output_tokens,
            "rescored": options.rescored if options.rescore else 0,
            "sampled": options.sampled,
            "singles": options.singles,
            "uncut": options.uncut,
            "width": options.width,
            "salt": options.salt,
            "bypass": options.bypass,
            "fields": options.fields,
        },
    )


def _answers(material: Material, options: SpecParityOptions) -> Iterator[Wave]:
    asks = [_answer(material, options, index) for index in range(options.prompts + options.openings)]
    yield from _waves(asks, options.width)


def _answer(material: Material, options: SpecParityOptions, index: int) -> Ask:
    content = CONTENTS[index % len(CONTENTS)]
    name = f"{options.name}/{content}{index}"
    tokens, is_opening = _length(index), index >= options.prompts
    kind = OPENING if is_opening else ANSWER
    return Ask(
        key=f"{name}/{kind}",
        prompt=TokenPrompt(token_ids=_ids(material, name, content, tokens)),
        max_tokens=len(CLEAN_POSITIONS) if is_opening else options.output_tokens,
        session=name,
        arm=kind,
        expected_prompt_tokens=tokens,
        parameters={**options.fields, "return_token_ids": True},
        labels={"kind": kind, "content": content},
    )


def _length(index: int) -> int:
    """Lengths in turn, so that answers cross the boundaries of blocks at all of their positions."""
    return SHORTEST_TOKENS + 7 * index % (LONGEST_TOKENS + 1 - SHORTEST_TOKENS)


def _ids(material: Material, name: str, content: str, tokens: int) -> tuple[int, ...]:
    """A prompt that begins like no other."""
    plain = material.ids(name, tokens)
    if content == "random":
        rng = seeded(material.seed, NAME, name)
        alphabet = sorted(set(material.token_ids if material.token_ids is not None else ()))
        return tuple(rng.choice(alphabet) for _ in range(tokens))
    if content == "repeating":
        return (plain[:PERIOD_TOKENS] * (tokens // PERIOD_TOKENS + 1))[:tokens]
    return plain


def _rescored(material: Material, options: SpecParityOptions, past: Past) -> Iterator[Wave]:
    """The token after the start of each answer, at chosen positions; nothing where no ids came."""
    asks: list[Ask] = []
    for answer in [ask for ask in past.asks if ask.arm in (ANSWER, OPENING) and options.rescore]:
        seen = past.seen.get(answer.key)
        ids = seen.token_ids if seen is not None else None
        fewest = FEWEST_TOKENS if answer.arm == ANSWER else len(CLEAN_POSITIONS)
        if ids is None or len(ids) < fewest or not isinstance(answer.prompt, TokenPrompt):
            continue
        rng = seeded(material.seed, NAME, answer.key, "positions")
        for position in _positions(rng, len(ids), options.rescored):
            asks.append(_rescore(material, options, answer, answer.prompt.token_ids + ids[:position], position))
    yield from _waves(asks, options.width)


def _positions(rng: random.Random, length: int, count: int) -> Sequence[int]:
    """The clean positions, the last two, where steps are cut short, and others in between; of an opening the last."""
    if length <= len(CLEAN_POSITIONS):
        return [length - 1]
    fixed = [*CLEAN_POSITIONS, length - 2, length - 1]
    others = [position for position in range(length) if position not in fixed]
    return sorted({*fixed, *rng.sample(others, min(len(others), max(0, count - len(fixed))))})


def _rescore(
    material: Material, options: SpecParityOptions, answer: Ask, token_ids: tuple[int, ...], position: int
) -> Ask:
    key = f"{answer.session}/{RESCORED}{position}"
    apart: Mapping[str, Json] = {}
    if options.salt:
        apart = {"cache_salt": material.salt(key)}
    elif options.bypass:
        apart = {"cache_prompt": False}
    return replace(
        answer,
        key=key,
        prompt=TokenPrompt(token_ids=token_ids),
        max_tokens=1,
        arm=RESCORED,
        expected_prompt_tokens=len(token_ids),
        parameters={**answer.parameters, **apart},
        labels={**answer.labels, "kind": RESCORED, "position": position, "clean": position in CLEAN_POSITIONS},
    )


def _sampled(material: Material, options: SpecParityOptions) -> Iterator[Wave]:
    """Answers drawn at temperature 1 from the whole distribution, each with a seed of its own."""
    asks = []
    for index in range(options.sampled + options.singles):
        name = f"{options.name}/sampled{index}"
        own: Mapping[str, Json] = {"temperature": 1.0, "top_p": 1.0, "seed": 1 + index, "return_token_ids": True}
        asks.append(
            Ask(
                key=name,
                prompt=material.prompt([Segment(name=name, tokens=SHORTEST_TOKENS)]),
                max_tokens=options.output_tokens if index < options.sampled else 1,
                session=name,
                arm=SAMPLED,
                expected_prompt_tokens=SHORTEST_TOKENS,
                parameters={**options.fields, **options.uncut, **own},
                labels={"kind": SAMPLED, "content": "text"},
            )
        )
    yield from _waves(asks, options.width)


def _waves(asks: Sequence[Ask], width: int) -> Iterator[Wave]:
    for start in range(0, len(asks), width):
        yield tuple(asks[start : start + width])
