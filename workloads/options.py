"""What a user chooses about a workload."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.agent_profile import AgentProfile
from workloads.arrivals import Arrivals
from workloads.ruler import Ruler

AGENT_CHOICES = (
    "turns",
    "think_time_s",
    "recorded_think",
    "sub_agents",
    "compaction",
    "whole_sessions",
    "live",
    "profile",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """Choices every workload takes; one that means nothing to a workload must be left None.

    requests: measured requests of a cell; None means without end, until the driver stops.
    highest_concurrency: of all cells that are to be compared, so that each has sessions enough.
    warmups: requests left out before measuring. warm_cache: send each session's opening prompt once before measuring.
    input_tokens, output_tokens, turns: None means the workload's default. think_time_s: median pause before a turn.
    token_id_range: lowest and highest id of prompts made of token ids; None means prompts of words.
    Of agents alone: recorded_think draws pauses from the profile; sub_agents: share of tool steps that send one out;
    compaction: share of steps at which a summary replaces the context (None: the profile's); whole_sessions: from the
    first call to the last; live: the model's own answers are its turns; profile: None means the recorded one.
    ruler: makes prompts of an exact length; None means lengths are aimed at. arrivals: when sessions come under open
    load, at so many requests a second; None means closed loop.
    Raises ValueError on a choice that makes no sense.
    """

    seed: int
    requests: int | None
    highest_concurrency: int
    warmups: int = 4
    warm_cache: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    turns: int | None = None
    think_time_s: float = 0.0
    token_id_range: tuple[int, int] | None = None
    recorded_think: bool = False
    sub_agents: float = 0.0
    compaction: float | None = None
    whole_sessions: bool = False
    live: bool = False
    profile: AgentProfile | None = None
    ruler: Ruler | None = None
    arrivals: Arrivals | None = None

    def __post_init__(self) -> None:
        for name in ("requests", "highest_concurrency", "input_tokens", "output_tokens", "turns"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.warmups < 0 or self.think_time_s < 0:
            raise ValueError("warmups and think_time_s cannot be negative")
        if self.warm_cache and self.requests is None:
            raise ValueError("a warm cache needs a number of requests: sessions without end cannot be sent beforehand")
        if self.token_id_range is not None and not 0 <= self.token_id_range[0] < self.token_id_range[1]:
            raise ValueError(f"token ids need a range of two or more, from 0 up, got {self.token_id_range}")

    def refuse(self, workload: str, *names: str) -> None:
        """Raise ValueError if one of the named choices was made, for workloads where it means nothing."""
        for name in names:
            if getattr(self, name) not in (None, 0.0, False):
                raise ValueError(f"the {workload} workload takes no {name}")
