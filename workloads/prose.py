"""The "text" workload: questions about passages of plain prose, of many lengths, that share nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping

from workloads.options import AGENT_CHOICES, WorkloadOptions
from workloads.plan import ChatPrompt, Json, Message
from workloads.sessions import Session, Turn
from workloads.text import CountTokens, cut_to_tokens, paragraphs, prompt_tokens, question, seeded, spread_fraction

DEFAULT_OUTPUT_TOKENS = 64
SHORTEST_TOKENS = 32
LONGEST_TOKENS = 1024


class ProseFamily:
    """Sessions of one turn; passage lengths are even on a logarithmic scale over any run of sessions."""

    name = "text"
    version = 1
    default_turns = 1
    given_sessions = None

    def __init__(self, seed: int, output_tokens: int, count: CountTokens) -> None:
        self._seed = seed
        self._output_tokens = output_tokens
        self._count = count

    def spec(self) -> Mapping[str, Json]:
        return {
            "seed": self._seed,
            "output_tokens": self._output_tokens,
            "shortest_tokens": SHORTEST_TOKENS,
            "longest_tokens": LONGEST_TOKENS,
        }

    def session(self, group: str, index: int, turns: int) -> Session:
        rng = seeded(self._seed, "text", group, index)
        fraction = spread_fraction(index, seeded(self._seed, "text", group, "length").random())
        tokens = round(SHORTEST_TOKENS * math.exp(fraction * math.log(LONGEST_TOKENS / SHORTEST_TOKENS)))
        passage = cut_to_tokens(lambda chars: paragraphs(rng, chars), tokens, self._count)
        prompt = ChatPrompt(messages=(Message(role="user", content=f"{passage}\n\n{question(rng)}"),))
        turn = Turn(
            prompt=prompt,
            max_tokens=self._output_tokens,
            expected_prompt_tokens=prompt_tokens(prompt, self._count),
        )
        return Session(turns=(turn,) * turns)


def prose(options: WorkloadOptions, count: CountTokens) -> ProseFamily:
    """The "text" workload; its input lengths are its own."""
    options.refuse("text", "input_tokens", "token_id_range", *AGENT_CHOICES)
    output_tokens = DEFAULT_OUTPUT_TOKENS if options.output_tokens is None else options.output_tokens
    return ProseFamily(options.seed, output_tokens, count)
