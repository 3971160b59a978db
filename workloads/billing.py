"""What has to be asked to know whether answers cost what their counts say: prompts of many lengths, each four times.

Labels: `kind` ("first" or "again").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workloads.material import Material, Segment
from workloads.plan import Ask, Json
from workloads.sequence import Sequence

NAME = "billing"
VERSION = 1
FIRST, AGAIN = "first", "again"
# Hosted caches begin at 1,024 tokens.
SHORTEST_TOKENS, LONGEST_TOKENS = 1200, 2800
# Output tokens of each answer to a prompt and whether it is streamed: costs must tell input from output.
TURNS = ((8, False), (40, False), (16, True), (24, True))


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingOptions:
    """Sizes of a plan. name: of the round. longest_tokens: of a prompt."""

    name: str
    prompts: int = 4
    longest_tokens: int = LONGEST_TOKENS

    def __post_init__(self) -> None:
        if self.prompts < 1 or self.longest_tokens < 1:
            raise ValueError("billing: at least 1 prompt of at least 1 token")

    def as_json(self) -> dict[str, Json]:
        """Plain data: what the plan depends on."""
        return {name: getattr(self, name) for name in self.__slots__}


def billing(material: Material, options: BillingOptions) -> Sequence:
    """The plan of a round."""
    steps = tuple(ask for index in range(options.prompts) for ask in _asks(material, options, index))
    return Sequence(name=NAME, version=VERSION, steps=steps, parameters={**options.as_json(), "seed": material.seed})


def _asks(material: Material, options: BillingOptions, index: int) -> Iterator[Ask]:
    name = f"{options.name}/p{index}"
    shortest = min(SHORTEST_TOKENS, options.longest_tokens)
    share = index / max(1, options.prompts - 1)
    tokens = round(shortest + share * (options.longest_tokens - shortest))
    prompt = material.prompt([Segment(name=f"{NAME} {name}", tokens=tokens)])
    for number, (output, stream) in enumerate(TURNS):
        yield Ask(
            key=f"{name}/{number}",
            prompt=prompt,
            max_tokens=output,
            session=name,
            arm=AGAIN if number else FIRST,
            stream=stream,
            expected_prompt_tokens=tokens,
            labels={"kind": AGAIN if number else FIRST},
        )
