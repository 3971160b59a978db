"""What is known of real agent sessions: quantile tables, recorded ones by default, fitted ones if wanted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from workloads.plan import Json
from workloads.quantiles import PERCENTILES, QuantileTable

_TABLES = {
    "calls_per_session": "calls_per_session",
    "first_input_tokens": "first_input_tokens",
    "last_input_tokens": "last_input_tokens",
    "output_before_tool_tokens": "output_tokens_ending_in_tool_use",
    "output_otherwise_tokens": "output_tokens_ending_otherwise",
    "new_after_tool_tokens": "new_tokens_after_tool_result",
    "new_after_user_tokens": "new_tokens_after_user_text",
    "think_before_tool_s": "think_time_before_tool_step_s",
    "think_before_user_s": "think_time_before_user_step_s",
    "steps_per_user_turn": "steps_per_user_turn",
    "tool_definition_tokens": "tool_definition_tokens",
    "system_prompt_tokens": "system_prompt_tokens",
}


_RENAMED = {"input_tokens_per_call": "input_tokens"}


@dataclass(frozen=True, kw_only=True)
class AgentProfile:
    """Distributions of a population of agent sessions; `source` says where they come from.

    new_*: tokens that a step adds beside the model's own answer, of the steps that add any.
    shrink_share: steps that lose over a fifth of the context (compaction). others: tables that nothing is drawn from,
    to compare with.
    """

    source: str
    calls_per_session: QuantileTable
    first_input_tokens: QuantileTable
    last_input_tokens: QuantileTable
    output_before_tool_tokens: QuantileTable
    output_otherwise_tokens: QuantileTable
    new_after_tool_tokens: QuantileTable
    new_after_user_tokens: QuantileTable
    think_before_tool_s: QuantileTable
    think_before_user_s: QuantileTable
    steps_per_user_turn: QuantileTable
    tool_definition_tokens: QuantileTable
    system_prompt_tokens: QuantileTable
    shrink_share: float
    others: Mapping[str, QuantileTable] = field(default_factory=dict, compare=False)

    def new_tokens(self, kind: str) -> QuantileTable:
        """What a "tool" or "user" step adds, of the steps that add any."""
        return self.new_after_tool_tokens if kind == "tool" else self.new_after_user_tokens

    def output_tokens(self, next_kind: str) -> QuantileTable:
        """Lengths of answers that end in a tool call ("tool") or in words for the user ("user")."""
        return self.output_before_tool_tokens if next_kind == "tool" else self.output_otherwise_tokens

    def think_s(self, kind: str) -> QuantileTable:
        """Time between an answer and the next "tool" or "user" step."""
        return self.think_before_tool_s if kind == "tool" else self.think_before_user_s

    def silent_share(self, kind: str) -> float:
        """Steps that add less than the answer before them, most of whose text (its thinking) is not sent back."""
        steps, adding = self.think_s(kind).count, self.new_tokens(kind).count
        return max(0.0, 1 - adding / steps) if steps else 0.0

    def by_name(self) -> dict[str, QuantileTable]:
        """The tables under the names that statistics of a trace have."""
        return {**self.others, **{name: getattr(self, own) for own, name in _TABLES.items()}}

    def as_json(self) -> dict[str, Json]:
        """Plain data, named as in the file of recorded sessions; `from_json` reads it back."""
        tables: dict[str, Json] = {name: table.as_json() for name, table in self.by_name().items()}
        head: dict[str, Json] = {"source": self.source, "percentiles": list(PERCENTILES)}
        return head | tables | {"fraction_of_steps_with_context_shrink_over_20_percent": self.shrink_share}

    @classmethod
    def from_json(cls, data: Json) -> AgentProfile:
        """Read a profile; ValueError names what is missing or wrong."""
        if not isinstance(data, Mapping):
            raise ValueError("a profile is a JSON object of quantile tables")
        percentiles = data.get("percentiles")
        if not isinstance(percentiles, Sequence) or isinstance(percentiles, str):
            raise ValueError("a profile needs a list of percentiles")
        numbers = [float(each) for each in percentiles if isinstance(each, int | float)]
        tables = {own: _table(data, name, numbers) for own, name in _TABLES.items()}
        shrink = data.get("fraction_of_steps_with_context_shrink_over_20_percent")
        if isinstance(shrink, bool) or not isinstance(shrink, int | float):
            raise ValueError("a profile needs fraction_of_steps_with_context_shrink_over_20_percent")
        others = {
            _RENAMED.get(name, name): _table(data, name, numbers)
            for name, value in data.items()
            if isinstance(value, Mapping) and name not in _TABLES.values()
        }
        return cls(source=str(data.get("source")), shrink_share=float(shrink), others=others, **tables)


@cache
def recorded_profile() -> AgentProfile:
    """The profile of the recorded coding-agent sessions that come with the package."""
    return AgentProfile.from_json(json.loads(files("workloads").joinpath("data/agent_sessions.json").read_text()))


def _table(data: Mapping[str, Json], name: str, percentiles: Sequence[float]) -> QuantileTable:
    try:
        return QuantileTable.from_json(data.get(name), percentiles)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
