"""The "random" workload: prompts of one length that share nothing, of random words or random token ids."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.lexicon import ADJECTIVES, NOUNS, VERBS
from workloads.options import AGENT_CHOICES, WorkloadOptions
from workloads.plan import ChatPrompt, Json, Message, Prompt, TokenPrompt
from workloads.ruler import Ruler
from workloads.sessions import Session, Turn
from workloads.text import CountTokens, prompt_tokens, seeded, words_of_tokens

DEFAULT_INPUT_TOKENS = 1024
DEFAULT_OUTPUT_TOKENS = 128
WORDS = (*NOUNS, *VERBS, *ADJECTIVES)


class RandomFamily:
    """Sessions of one turn; `token_id_range` None means words."""

    name = "random"
    version = 1
    default_turns = 1
    given_sessions = None

    def __init__(
        self,
        seed: int,
        input_tokens: int,
        output_tokens: int,
        token_id_range: tuple[int, int] | None,
        count: CountTokens,
        ruler: Ruler | None = None,
    ) -> None:
        self._seed = seed
        self._input_tokens = input_tokens
        self._output_tokens = output_tokens
        self._token_id_range = token_id_range
        self._count = count
        self._ruler = ruler

    def spec(self) -> Mapping[str, Json]:
        return {
            "seed": self._seed,
            "input_tokens": self._input_tokens,
            "output_tokens": self._output_tokens,
            "token_id_range": self._token_id_range,
        }

    def session(self, group: str, index: int, turns: int) -> Session:
        prompt = self._prompt(group, index)
        exact = self._ruler is not None
        turn = Turn(
            prompt=prompt,
            max_tokens=self._output_tokens,
            expected_prompt_tokens=self._input_tokens if exact else prompt_tokens(prompt, self._count),
        )
        return Session(turns=(turn,) * turns)

    def _prompt(self, group: str, index: int) -> Prompt:
        rng = seeded(self._seed, "random", group, index)
        if self._token_id_range is not None:
            low, high = self._token_id_range
            return TokenPrompt(token_ids=tuple(rng.randint(low, high) for _ in range(self._input_tokens)))
        if self._ruler is not None:
            return self._ruler.prompt(f"random/{self._seed}/{group}/{index}", self._input_tokens)
        text = words_of_tokens(rng, WORDS, self._input_tokens, self._count)
        return ChatPrompt(messages=(Message(role="user", content=text),))


def random_lengths(options: WorkloadOptions, count: CountTokens) -> RandomFamily:
    """The "random" workload; `input_tokens` and `output_tokens` are the lengths of every request."""
    options.refuse("random", *AGENT_CHOICES)
    input_tokens = DEFAULT_INPUT_TOKENS if options.input_tokens is None else options.input_tokens
    output_tokens = DEFAULT_OUTPUT_TOKENS if options.output_tokens is None else options.output_tokens
    return RandomFamily(options.seed, input_tokens, output_tokens, options.token_id_range, count, options.ruler)
