"""The options of a sweep: what was typed, checked once, and kept in run.json so that a run can be resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workloads.plan import Json

CACHE_MODES = ("cold", "warm", "keep")
DEFAULT_PERCENTILES = (50.0, 90.0, 99.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """Everything that decides what a sweep asks; neither keys nor header values are part of it.

    num_prompts: measured requests per cell; None means four per slot of the highest level, or endless under duration_s.
    sampling: body fields of every request. max_tokens_total: cap on prompt and output tokens of the whole run.
    """

    concurrency: tuple[int, ...]
    dataset_name: str
    endpoint_type: str = "chat"
    model: str | None = None
    num_prompts: int | None = None
    duration_s: float | None = None
    num_warmups: int = 4
    seed: int = 0
    cache: str = "cold"
    sampling: Mapping[str, Json] = field(default_factory=dict)
    input_tokens: int | None = None
    output_tokens: int | None = None
    turns: int | None = None
    think_time_s: float = 0.0
    goodput: Mapping[str, float] = field(default_factory=dict)
    metric_percentiles: tuple[float, ...] = DEFAULT_PERCENTILES
    max_tokens_total: int | None = None
    tokenizer: str | None = None
    connect_timeout_s: float = 10.0
    first_byte_timeout_s: float = 600.0
    stall_timeout_s: float = 120.0
    request_timeout_s: float = 3600.0

    def __post_init__(self) -> None:
        if not self.concurrency or min(self.concurrency) < 1:
            raise ValueError("--concurrency needs one or more numbers of at least 1, such as 1,8,32")
        if len(set(self.concurrency)) != len(self.concurrency):
            raise ValueError("--concurrency names a level twice; each level is one cell")
        if self.num_prompts is not None and self.num_prompts < 1:
            raise ValueError("--num-prompts must be at least 1")
        if self.duration_s is not None and self.duration_s <= 0:
            raise ValueError("--duration must be above 0 seconds")
        if self.cache not in CACHE_MODES:
            raise ValueError(f"--cache must be one of {', '.join(CACHE_MODES)}")

    @property
    def requests_per_cell(self) -> int | None:
        """Measured requests of a cell; None means until the duration is over."""
        if self.num_prompts is not None:
            return self.num_prompts
        return None if self.duration_s is not None else 4 * max(self.concurrency)

    def as_json(self) -> dict[str, Json]:
        """Plain data for run.json; `from_json` reads it back."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> SweepOptions:
        """Read what `as_json` wrote; fields this version does not know are ignored, absent ones take their default."""
        known = {name: value for name, value in data.items() if name in cls.__slots__}
        for name in ("concurrency", "metric_percentiles"):
            value = known.get(name)
            if isinstance(value, Sequence):
                known[name] = tuple(value)
        return cls(**known)  # type: ignore[arg-type]


def parse_concurrency(text: str) -> tuple[int, ...]:
    """Read "1,8,32"; ValueError names the part that is not a number."""
    levels = []
    for part in text.split(","):
        if not part.strip().isdigit():
            raise ValueError(f"--concurrency: {part.strip()!r} is not a whole number; write for example 1,8,32")
        levels.append(int(part))
    return tuple(levels)


def parse_note(text: str) -> tuple[str, str]:
    """Read KEY=VALUE; ValueError when there is no key or no equals sign."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"--note {text!r}: write KEY=VALUE, for example --note image=lmsysorg/sglang:dev")
    return key.strip(), value
