"""A fixed battery of probes, asked before, between and after phases of load, with and without a salt of its own.

Labels: `probe` (its number), `phase` ("before", "between", "after", then "again" in a later round), `salted`, `repeat`.
Load carries `phase` "load" alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from workloads.material import Material, Segment
from workloads.plan import Ask, Json, Marker, Step
from workloads.waves import Phase, Wave, Waves

NAME = "heartbeat"
VERSION = 2
BEFORE, BETWEEN, AFTER, AGAIN, LOAD = "before", "between", "after", "again", "load"
# Very short probes show what a slot kept of its last tenant, those of several blocks what the cache keeps.
PROBE_TOKENS = (6, 9, 13, 18, 40, 160, 576, 704)
SHORT_TOKENS, LONG_TOKENS = 40, 320
REPEATS = 3
OUTPUT_TOKENS = 16
LOAD_TOKENS = (64, 200, 640, 1300)
LOAD_OUTPUT_TOKENS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatOptions:
    """Sizes of a plan.

    round_index: later rounds ask the same battery once more. load: requests of one phase of load; width: how many of
    them at once. longest_tokens: of any prompt. salt: probes are also asked under a salt of their own. fields: of every
    probe, for log-probabilities.
    """

    round_index: int = 0
    load: int = 24
    width: int = 8
    longest_tokens: int = 1300
    salt: bool = True
    fields: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.load < 1 or self.width < 1:
            raise ValueError("a phase of load needs at least 1 request")


def heartbeat(material: Material, options: HeartbeatOptions) -> Waves:
    """The plan: battery, load, battery, load, battery; a later round has the battery alone."""
    phases: tuple[Phase, ...] = (
        lambda past: tuple(_battery(material, options, BEFORE)),
        lambda past: tuple(_load(material, options, 0)),
        lambda past: tuple(_battery(material, options, BETWEEN)),
        lambda past: tuple(_load(material, options, 1)),
        lambda past: tuple(_battery(material, options, AFTER)),
    )
    if options.round_index > 0:
        phases = (lambda past: tuple(_battery(material, options, f"{AGAIN} {options.round_index}")),)
    return Waves(
        name=NAME,
        version=VERSION,
        phases=phases,
        parameters={
            "seed": material.seed,
            "round": options.round_index,
            "probes": list(PROBE_TOKENS),
            "load": options.load,
            "width": options.width,
            "longest_tokens": options.longest_tokens,
            "salt": options.salt,
            "fields": options.fields,
        },
    )


def _battery(material: Material, options: HeartbeatOptions, phase: str) -> Iterator[Wave]:
    """Every probe alone: repeated, and as often under a salt that is new each time, so that it is computed anew.

    The first of each kind follows another probe.
    """
    yield (Marker(key=f"{phase}/battery", text=f"probes {phase}"),)
    for salted in (False, True) if options.salt else (False,):
        for number, tokens in enumerate(PROBE_TOKENS):
            prompt = material.prompt([Segment(name=f"probe{number}", tokens=min(tokens, options.longest_tokens))])
            for repeat in range(REPEATS):
                key = f"{phase}/probe{number}/{'salted' if salted else 'plain'}{repeat}"
                own: Mapping[str, Json] = {"cache_salt": material.salt(key)} if salted else {}
                labels: Mapping[str, Json] = {"probe": number, "phase": phase, "salted": salted, "repeat": repeat}
                ask = Ask(
                    key=key,
                    prompt=prompt,
                    max_tokens=OUTPUT_TOKENS,
                    session=f"probe{number}",
                    arm=phase,
                    expected_prompt_tokens=min(tokens, options.longest_tokens),
                    parameters={**options.fields, **own},
                    labels=labels,
                )
                yield (ask,)


def _load(material: Material, options: HeartbeatOptions, number: int) -> Iterator[Wave]:
    """Waves of prompts of mixed lengths, every third one asked twice."""
    steps: list[Step] = []
    for index in range(options.load):
        tokens = min(LOAD_TOKENS[index % len(LOAD_TOKENS)], options.longest_tokens)
        content = index - 1 if index % 3 == 1 else index
        prompt = material.prompt([Segment(name=f"load{number}/{content}", tokens=tokens)])
        steps.append(
            Ask(
                key=f"{LOAD}{number}/{index}",
                prompt=prompt,
                max_tokens=LOAD_OUTPUT_TOKENS,
                arm=LOAD,
                expected_prompt_tokens=tokens,
                labels={"phase": LOAD},
            )
        )
    for start in range(0, len(steps), options.width):
        yield tuple(steps[start : start + options.width])
