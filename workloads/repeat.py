"""The "repeat" workload: one long prompt again and again, and the same long prefix with different tails, in turn."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.options import AGENT_CHOICES, WorkloadOptions
from workloads.plan import ChatPrompt, Json, Message
from workloads.ruler import Ruler, forked
from workloads.sessions import Session, Turn
from workloads.text import CountTokens, cut_to_tokens, paragraphs, prompt_tokens, question, seeded

DEFAULT_INPUT_TOKENS = 1536
DEFAULT_OUTPUT_TOKENS = 32
TAIL_SHARE = 0.1


class RepeatFamily:
    """Sessions of one turn: even ones are the same prompt, odd ones share its prefix and end differently.

    Lengths are exact with a ruler and as good as the token count without one.
    """

    name = "repeat"
    version = 1
    default_turns = 1
    given_sessions = None

    def __init__(
        self, seed: int, input_tokens: int, output_tokens: int, count: CountTokens, ruler: Ruler | None = None
    ) -> None:
        self._ruler = ruler
        self._seed = seed
        self._input_tokens = input_tokens
        self._output_tokens = output_tokens
        self._count = count
        self._tail_tokens = max(1, round(TAIL_SHARE * input_tokens))
        self._prefix = "" if ruler is not None else self._text("prefix", max(1, input_tokens - self._tail_tokens))
        self._same = self._turn("same")

    def spec(self) -> Mapping[str, Json]:
        return {
            "seed": self._seed,
            "input_tokens": self._input_tokens,
            "output_tokens": self._output_tokens,
            "tail_share": TAIL_SHARE,
        }

    def session(self, group: str, index: int, turns: int) -> Session:
        turn = self._same if index % 2 == 0 else self._turn(f"{group}/{index}")
        return Session(turns=(turn,) * turns)

    def _turn(self, path: str) -> Turn:
        if self._ruler is not None:
            own = f"repeat/{self._seed}"
            exact = forked(self._ruler, f"{own}/prefix", f"{own}/{path}", self._input_tokens, self._tail_tokens)
            return Turn(prompt=exact, max_tokens=self._output_tokens, expected_prompt_tokens=self._input_tokens)
        prompt = ChatPrompt(
            messages=(Message(role="system", content=self._prefix), Message(role="user", content=self._tail(path))),
        )
        return Turn(
            prompt=prompt,
            max_tokens=self._output_tokens,
            expected_prompt_tokens=prompt_tokens(prompt, self._count),
        )

    def _tail(self, path: str) -> str:
        asked = question(seeded(self._seed, "repeat", path, "question"))
        rest = max(1, self._tail_tokens - self._count(asked))
        return f"{self._text(path, rest)}\n\n{asked}"

    def _text(self, path: str, tokens: int) -> str:
        rng = seeded(self._seed, "repeat", path)
        return cut_to_tokens(lambda chars: paragraphs(rng, chars), tokens, self._count)


def repeat(options: WorkloadOptions, count: CountTokens) -> RepeatFamily:
    """The "repeat" workload; `input_tokens` is the length of the long prompt."""
    options.refuse("repeat", "token_id_range", *AGENT_CHOICES)
    input_tokens = DEFAULT_INPUT_TOKENS if options.input_tokens is None else options.input_tokens
    output_tokens = DEFAULT_OUTPUT_TOKENS if options.output_tokens is None else options.output_tokens
    return RepeatFamily(options.seed, input_tokens, output_tokens, count, options.ruler)
