"""A few fixed probes that are asked again and again between the phases of a longer run.

Labels are those of the heartbeat's batteries: `probe`, `phase`, `salted`, `repeat`. The first battery is "before".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from workloads.material import Material, Segment
from workloads.plan import Ask, Json, Step
from workloads.sequence import Sequence

NAME = "pulse"
VERSION = 1
# Below any block, within a chunk, and over several blocks.
PROBE_TOKENS = (40, 224, 640)
PLAIN_REPEATS, SALTED_REPEATS = 3, 2
OUTPUT_TOKENS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PulseOptions:
    """phase: what the battery is called. longest_tokens: of any prompt. salt: probes are also asked under a salt of
    their own, so that they are computed anew. fields: of every probe, for log-probabilities.
    """

    phase: str
    longest_tokens: int = max(PROBE_TOKENS)
    salt: bool = True
    fields: Mapping[str, Json] = field(default_factory=dict)


def pulse(material: Material, options: PulseOptions) -> Sequence:
    """One battery, to be asked with one request in flight."""
    return Sequence(
        name=NAME,
        version=VERSION,
        steps=tuple(_battery(material, options)),
        parameters={
            "seed": material.seed,
            "phase": options.phase,
            "probes": list(PROBE_TOKENS),
            "longest_tokens": options.longest_tokens,
            "salt": options.salt,
            "fields": options.fields,
        },
    )


def _battery(material: Material, options: PulseOptions) -> Iterator[Step]:
    for number, wanted in enumerate(PROBE_TOKENS):
        tokens = min(wanted, options.longest_tokens)
        prompt = material.prompt([Segment(name=f"pulse{number}", tokens=tokens)])
        for salted, repeats in ((False, PLAIN_REPEATS), (True, SALTED_REPEATS if options.salt else 0)):
            for repeat in range(repeats):
                key = f"{options.phase}/probe{number}/{'salted' if salted else 'plain'}{repeat}"
                own: Mapping[str, Json] = {"cache_salt": material.salt(key)} if salted else {}
                yield Ask(
                    key=key,
                    prompt=prompt,
                    max_tokens=OUTPUT_TOKENS,
                    session=f"pulse{number}",
                    arm=options.phase,
                    expected_prompt_tokens=tokens,
                    parameters={**options.fields, **own},
                    labels={"probe": number, "phase": options.phase, "salted": salted, "repeat": repeat},
                )
