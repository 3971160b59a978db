"""The "needle" workload: a number told somewhere in a long text, and asked for at its end."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.lexicon import NOUNS
from workloads.plan import ChatPrompt, Json, Message
from workloads.sessions import Session, Turn
from workloads.single_turn import SingleTurnFamily
from workloads.text import cut_to_tokens, paragraphs, prompt_tokens, seeded, spread_fraction

DEFAULT_INPUT_TOKENS = 1024
DEFAULT_OUTPUT_TOKENS = 16
DIGITS = 7


class NeedleFamily(SingleTurnFamily):
    """Sessions of one turn; the depth of the needle is spread evenly, its value and depth are kept as labels."""

    name = "needle"
    default_input_tokens = DEFAULT_INPUT_TOKENS
    default_output_tokens = DEFAULT_OUTPUT_TOKENS
    own_spec: Mapping[str, Json] = {"digits": DIGITS}

    def session(self, group: str, index: int, turns: int) -> Session:
        rng = seeded(self._seed, "needle", group, index)
        value = str(rng.randrange(10 ** (DIGITS - 1), 10**DIGITS))
        thing = f"{rng.choice(NOUNS)} {rng.choice(NOUNS)}"
        fact = f"The number of the {thing} is {value}."
        task = f"What is the number of the {thing}? Answer with the number alone."
        wanted = max(2, self._tokens - self._count(f"{fact} {task}"))
        hay = cut_to_tokens(lambda chars: paragraphs(rng, chars), wanted, self._count)
        depth = spread_fraction(index, seeded(self._seed, "needle", group).random())
        at = hay.find(" The ", round(depth * len(hay)))
        text = f"{hay} {fact}" if at < 0 else f"{hay[:at]} {fact}{hay[at:]}"
        prompt = ChatPrompt(messages=(Message(role="user", content=f"{text}\n\n{task}"),))
        turn = Turn(
            prompt=prompt,
            max_tokens=self._output_tokens,
            expected_prompt_tokens=prompt_tokens(prompt, self._count),
            labels={"needle": value, "depth": round(depth, 3)},
        )
        return Session(turns=(turn,) * turns)
