"""The "fork" workload: a long prefix that several requests continue, each in its own way, then the next prefix."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.plan import ChatPrompt, Json, Message, Prompt
from workloads.ruler import forked
from workloads.sessions import Session, Turn
from workloads.single_turn import SingleTurnFamily
from workloads.text import cut_to_tokens, paragraphs, prompt_tokens, question, seeded

DEFAULT_INPUT_TOKENS = 1536
DEFAULT_OUTPUT_TOKENS = 32
BRANCHES = 4
TAIL_SHARE = 0.1


class ForkFamily(SingleTurnFamily):
    """Sessions of one turn; BRANCHES of them in a row share all but their tail.

    Lengths are exact with a ruler and as good as the token count without one.
    """

    name = "fork"
    default_input_tokens = DEFAULT_INPUT_TOKENS
    default_output_tokens = DEFAULT_OUTPUT_TOKENS
    own_spec: Mapping[str, Json] = {"branches": BRANCHES, "tail_share": TAIL_SHARE}

    def session(self, group: str, index: int, turns: int) -> Session:
        prompt, expected = self._prompt(f"{group}/prefix/{index // BRANCHES}", f"{group}/tail/{index}")
        turn = Turn(
            prompt=prompt,
            max_tokens=self._output_tokens,
            expected_prompt_tokens=expected,
            labels={"fork": index // BRANCHES, "branch": index % BRANCHES},
        )
        return Session(turns=(turn,) * turns)

    def _prompt(self, prefix_path: str, path: str) -> tuple[Prompt, int]:
        tail_tokens = max(1, round(TAIL_SHARE * self._tokens))
        if self._ruler is not None:
            own = f"fork/{self._seed}"
            exact = forked(self._ruler, f"{own}/{prefix_path}", f"{own}/{path}", self._tokens, tail_tokens)
            return exact, self._tokens
        prefix = self._text(prefix_path, max(1, self._tokens - tail_tokens))
        asked = question(seeded(self._seed, "fork", path, "question"))
        tail = f"{self._text(path, max(1, tail_tokens - self._count(asked)))}\n\n{asked}"
        prompt = ChatPrompt(messages=(Message(role="system", content=prefix), Message(role="user", content=tail)))
        return prompt, prompt_tokens(prompt, self._count)

    def _text(self, path: str, tokens: int) -> str:
        rng = seeded(self._seed, "fork", path)
        return cut_to_tokens(lambda chars: paragraphs(rng, chars), tokens, self._count)
