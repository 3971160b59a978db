"""The "boundary" workload: prompts one token short of a block boundary, on it, and one past it, each sent twice."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.options import AGENT_CHOICES, WorkloadOptions
from workloads.plan import Json, Prompt, TextPrompt
from workloads.sessions import Session, Turn
from workloads.text import CountTokens, prompt_tokens, seeded, words_of_tokens
from workloads.uniform import WORDS

DEFAULT_INPUT_TOKENS = 1024
DEFAULT_OUTPUT_TOKENS = 16
BLOCK_TOKENS = 64
OFFSETS = (-1, 0, 1)


class BoundaryFamily:
    """Sessions of two turns, the same prompt twice; lengths go through the boundaries up to `input_tokens`, over again.

    Lengths are exact with a ruler and as good as the token count without one.
    """

    name = "boundary"
    version = 1
    default_turns = 2
    given_sessions = None

    def __init__(self, options: WorkloadOptions, count: CountTokens) -> None:
        options.refuse("boundary", "token_id_range", *(each for each in AGENT_CHOICES if each != "turns"))
        self._seed = options.seed
        self._ruler = options.ruler
        self._count = count
        longest = DEFAULT_INPUT_TOKENS if options.input_tokens is None else options.input_tokens
        self._output_tokens = DEFAULT_OUTPUT_TOKENS if options.output_tokens is None else options.output_tokens
        shortest = 1 if options.ruler is None else options.ruler.overhead_tokens + 1
        blocks = range(1, max(2, longest // BLOCK_TOKENS + 1))
        lengths = [block * BLOCK_TOKENS + offset for block in blocks for offset in OFFSETS]
        self._lengths = tuple(length for length in lengths if length >= shortest)
        if not self._lengths:
            raise ValueError(f"no boundary of {BLOCK_TOKENS} tokens leaves room beside the chat template")

    def spec(self) -> Mapping[str, Json]:
        return {"seed": self._seed, "lengths": list(self._lengths), "output_tokens": self._output_tokens}

    def session(self, group: str, index: int, turns: int) -> Session:
        length = self._lengths[index % len(self._lengths)]
        prompt = self._prompt(f"{group}/{index}", length)
        turn = Turn(
            prompt=prompt,
            max_tokens=self._output_tokens,
            expected_prompt_tokens=length if self._ruler is not None else prompt_tokens(prompt, self._count),
            labels={"length": length},
        )
        return Session(turns=(turn,) * turns)

    def _prompt(self, path: str, tokens: int) -> Prompt:
        if self._ruler is not None:
            return self._ruler.prompt(f"boundary/{self._seed}/{path}", tokens)
        rng = seeded(self._seed, "boundary", path)
        return TextPrompt(text=words_of_tokens(rng, WORDS, tokens, self._count))
