"""Sizes of the eviction plan's prompts: where they end, seen from the points at which hits resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from workloads.eviction_documents import code
from workloads.granularity import Rule
from workloads.plan import Json

PROBES = (1.0, 0.95, 0.8, 0.55)
"""Shares of the longest prompt at which hits are looked for."""
SHORTEST_PROMPT = 256
SHORT_TAILS = (1, 1, 1, None, 0, 1, 1, None, 1, 2, 3, None)
"""Tokens behind the last resume point, turn by turn; 0 ends right on it, where a resume must start one step earlier.

None: an answer of one token, with the tails below.
"""
DECODED_TURNS = (2, 5, 8)
PACKED_TURNS = (1, 6, 9)
PACKED_TOKENS, PACKED_STEPS = 128, 2
"""Least length of prompts so short that one step of the server prefills several of them."""
LEAD_TOKENS = 8
ONE_TOKEN_TAILS = (1, 2, 4, 16)
LONG_TAILS = (33, 37, 42, 47, 52, 57, 61, 63)
FAR_TOKENS = 512
ANSWER_TOKENS = 16
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
        if self.longest_tokens < SHORTEST_PROMPT:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One prompt: its name, its length without the server's own tokens, and how much of it a far resume skips.

    stepped: its last token is to be the model's own. decoded: so are the eight before it. ending: those ids, once they
    are known. packed: it is short, and is to be filled beside others.
    """

    name: str
    tokens: int
    far_tokens: int | None
    answer_tokens: int
    labels: Mapping[str, Json]
    stepped: bool = False
    decoded: bool = False
    ending: tuple[int, ...] = ()
    packed: bool = False


def shape_prompt(options: EvictionOptions, index: int, shape: Shape, *, exact: bool, pack: bool = False) -> Subject:
    """Prompt `index` of a round; a quarter of them get a one-token answer, another quarter is asked for its code.

    exact: prompts have exactly the length asked for, and hold no codes. pack: a quarter is short, to be filled at once.
    """
    long = options.long_tails and index % 2 == 1 and shape.rule.step > SMALL_STEP
    turn = index // options.cycles
    short = SHORT_TAILS[turn % len(SHORT_TAILS)]
    one = short is None and not long
    wanted = LONG_TAILS[turn % len(LONG_TAILS)] if long else short
    tail = ONE_TOKEN_TAILS[turn // 4 % len(ONE_TOKEN_TAILS)] if wanted is None else wanted
    tail = min(tail, max(1, shape.rule.step - 1))
    needle = turn % 4 == 1 and not exact
    name = f"{options.name}/p{index:03d}"
    packed = pack and not long and turn % len(SHORT_TAILS) in PACKED_TURNS
    subject = _subject(options, name, tail, shape, one=one, needle=needle, exact=exact, packed=packed)
    if not _can_step(options, shape.rule, exact=exact) or tail != 1 or one or long:
        return subject
    decoded = turn % len(SHORT_TAILS) in DECODED_TURNS and shape.rule.step > 2 * LEAD_TOKENS
    return replace(subject, stepped=True, decoded=decoded)


def _can_step(options: EvictionOptions, rule: Rule, *, exact: bool) -> bool:
    """Whether a hit computes the last token alone, and a cold answer and its ids can be had."""
    return exact and (options.salt or options.bypass) and rule.offset == 1 and rule.drop == 0


def shape_sentinel(options: EvictionOptions, name: str, shape: Shape, *, exact: bool) -> Subject:
    """A prompt that ends one token behind its resume point."""
    return _subject(options, name, 1, shape, one=False, needle=False, exact=exact)


def _subject(
    options: EvictionOptions,
    name: str,
    tail: int,
    shape: Shape,
    *,
    one: bool,
    needle: bool,
    exact: bool,
    packed: bool = False,
) -> Subject:
    blocks, aligned = _blocks(options, tail, shape.rule)
    if packed:
        blocks, aligned = min(blocks, _packed_blocks(shape.rule)), False
    rule = shape.rule
    length = blocks * rule.step + rule.offset + tail - 1
    far_blocks = blocks - min(-(-FAR_TOKENS // rule.step), blocks - rule.drop // rule.step - 1)
    far = far_blocks * rule.step + rule.offset if 0 < far_blocks < blocks else None
    labels: dict[str, Json] = {
        "round": options.round_index,
        "tail": tail,
        "aligned": aligned,
        "needle": needle,
        "one_token": one,
    }
    return Subject(
        name=name,
        tokens=max(1, length - shape.overhead),
        far_tokens=None if far is None else max(1, far - shape.overhead),
        answer_tokens=1 if one else ANSWER_TOKENS,
        labels=labels if exact else {**labels, "code": code(options.seed, name)},
        packed=packed,
    )


def _packed_blocks(rule: Rule) -> int:
    """Steps of the rule before the tail of a short prompt: one is left for a far resume, beside what a hit drops."""
    return max(PACKED_STEPS + rule.drop // rule.step, -(-PACKED_TOKENS // rule.step))


def _blocks(options: EvictionOptions, tail: int, rule: Rule) -> tuple[int, bool]:
    """Steps of the rule before the tail, and whether a cold run is known to begin a piece of its prefill there."""
    blocks = max(1, (options.longest_tokens - rule.offset - tail + 1) // rule.step)
    if options.chunk_tokens is None or options.chunk_tokens % rule.step or rule.drop % rule.step:
        return blocks, False
    chunk_blocks = options.chunk_tokens // rule.step
    # What a hit computes again: dropped blocks, and the last one of a prompt that ends right on a resume point.
    again = rule.drop // rule.step + (tail == 0)
    pieces = (blocks - again) // chunk_blocks
    return (pieces * chunk_blocks + again, True) if pieces > 0 else (blocks, False)
