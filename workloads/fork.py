"""The "fork" workload: a long prefix that several requests continue, each in its own way, then the next prefix."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.options import AGENT_CHOICES, WorkloadOptions
from workloads.plan import ChatPrompt, Json, Message
from workloads.sessions import Session, Turn
from workloads.text import CountTokens, cut_to_tokens, paragraphs, prompt_tokens, question, seeded

DEFAULT_INPUT_TOKENS = 1536
DEFAULT_OUTPUT_TOKENS = 32
BRANCHES = 4
TAIL_SHARE = 0.1


class ForkFamily:
    """Sessions of one turn; BRANCHES of them in a row share all but their tail."""

    name = "fork"
    version = 1
    default_turns = 1
    given_sessions = None

    def __init__(self, options: WorkloadOptions, count: CountTokens) -> None:
        options.refuse("fork", "token_id_range", *AGENT_CHOICES)
        self._seed = options.seed
        self._tokens = DEFAULT_INPUT_TOKENS if options.input_tokens is None else options.input_tokens
        self._output_tokens = DEFAULT_OUTPUT_TOKENS if options.output_tokens is None else options.output_tokens
        self._count = count

    def spec(self) -> Mapping[str, Json]:
        return {
            "seed": self._seed,
            "input_tokens": self._tokens,
            "output_tokens": self._output_tokens,
            "branches": BRANCHES,
            "tail_share": TAIL_SHARE,
        }

    def session(self, group: str, index: int, turns: int) -> Session:
        tail_tokens = max(1, round(TAIL_SHARE * self._tokens))
        prefix = self._text(f"{group}/prefix/{index // BRANCHES}", max(1, self._tokens - tail_tokens))
        path = f"{group}/tail/{index}"
        asked = question(seeded(self._seed, "fork", path, "question"))
        tail = f"{self._text(path, max(1, tail_tokens - self._count(asked)))}\n\n{asked}"
        prompt = ChatPrompt(messages=(Message(role="system", content=prefix), Message(role="user", content=tail)))
        turn = Turn(
            prompt=prompt,
            max_tokens=self._output_tokens,
            expected_prompt_tokens=prompt_tokens(prompt, self._count),
            labels={"fork": index // BRANCHES, "branch": index % BRANCHES},
        )
        return Session(turns=(turn,) * turns)

    def _text(self, path: str, tokens: int) -> str:
        rng = seeded(self._seed, "fork", path)
        return cut_to_tokens(lambda chars: paragraphs(rng, chars), tokens, self._count)
