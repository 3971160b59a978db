"""What families of one-turn sessions have in common: their sizes, their seed, and how they are told apart."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.options import AGENT_CHOICES, WorkloadOptions
from workloads.plan import Json
from workloads.text import CountTokens


class SingleTurnFamily:
    """A family whose sessions are one request each; a subclass says what it asks and what more its steps depend on."""

    name: str
    version = 1
    default_turns = 1
    given_sessions = None
    default_input_tokens: int
    default_output_tokens: int
    own_spec: Mapping[str, Json] = {}

    def __init__(self, options: WorkloadOptions, count: CountTokens) -> None:
        options.refuse(self.name, "token_id_range", *AGENT_CHOICES)
        self._seed = options.seed
        self._tokens = self.default_input_tokens if options.input_tokens is None else options.input_tokens
        self._output_tokens = self.default_output_tokens if options.output_tokens is None else options.output_tokens
        self._count = count
        self._ruler = options.ruler

    def spec(self) -> Mapping[str, Json]:
        return {
            "seed": self._seed,
            "input_tokens": self._tokens,
            "output_tokens": self._output_tokens,
            **self.own_spec,
        }
