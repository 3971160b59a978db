"""A parsed request for text, whatever route and dialect it came by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from harness.reference.constraint.base import Constraint
from harness.reference.sampling import SamplingParams
from harness.reference.scheduler.request import PromptScore


class Route(Enum):
    """Which shape the answer takes."""

    CHAT = "chat"
    COMPLETION = "completion"
    GENERATE = "generate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What one HTTP request wants: ``n`` answers to each prompt, prompts as token ids.

    ``given_id`` is the id that the body asks for, empty when it leaves that to the server. ``flags`` names those of the
    dialect's own switches that are on.
    """

    route: Route
    model: str
    prompts: tuple[tuple[int, ...], ...]
    sampling: SamplingParams
    n: int = 1
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    return_token_ids: bool = False
    echo: bool = False
    score: PromptScore | None = None
    cache_salt: str = ""
    reads_cache: bool = True
    constraint: Constraint | None = None
    thinking: bool = False
    calls_tools: bool = False
    given_id: str = ""
    flags: frozenset[str] = frozenset()

    @property
    def choices(self) -> int:
        """How many answers in all."""
        return self.n * len(self.prompts)

    @property
    def prompt_tokens(self) -> int:
        """Length of all prompts together."""
        return sum(map(len, self.prompts))
