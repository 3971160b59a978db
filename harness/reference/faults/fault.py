"""What a fault is: its description as data, when it happens, and where it takes hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from harness.reference.scheduler.engine import Engine
from harness.reference.server.dialects.base import Dialect

Size = Literal["gross", "medium", "subtle", "drafts", "accounting", "speed"]
"""How much a client sees: of wrong answers, or only of drafts, counts or time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One way a fault goes wrong: what happens, and on which trigger."""

    name: str
    size: Size
    effect: str
    trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A number that a fault can be given."""

    name: str
    default: float
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultInfo:
    """A fault class as data; its first mode is the default. Public reports are listed in docs/faults.md.

    Raises:
        ValueError: no mode, or two of one name.
    """

    code: str
    name: str
    modes: tuple[Mode, ...]
    parameters: tuple[Parameter, ...] = ()

    def __post_init__(self) -> None:
        if not self.modes or len({mode.name for mode in self.modes}) < len(self.modes):
            raise ValueError(f"{self.code} needs modes of different names")

    def mode(self, name: str) -> Mode:
        """The mode of a name.

        Raises:
            KeyError: there is none.
        """
        return {mode.name: mode for mode in self.modes}[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSettings:
    """How one fault is planted: ``rate`` is the share of triggers on which it happens, ``seed`` draws which.

    Raises:
        ValueError: the rate is not in (0, 1].
    """

    mode: str
    rate: float = 1.0
    seed: int = 0
    numbers: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError("rate must be above 0 and at most 1")


class Dice:
    """Decides for each trigger, independently and repeatably, whether the fault happens; counts both."""

    def __init__(self, rate: float, seed: int) -> None:
        self.rate = rate
        self.triggers = 0
        self.happened = 0
        self._random = np.random.default_rng(seed)

    def roll(self) -> bool:
        """Takes one trigger."""
        self.triggers += 1
        hit = self.rate == 1.0 or bool(self._random.random() < self.rate)
        self.happened += hit
        return hit


class Fault:
    """One fault, planted in one engine; a subclass overrides acts of the engine's parts or of the dialect."""

    info: ClassVar[FaultInfo]
    always: ClassVar[bool] = False
    """Whether it cannot happen on some triggers only."""

    def __init__(self, settings: FaultSettings) -> None:
        self.mode = settings.mode
        self.dice = Dice(settings.rate, settings.seed)
        self._numbers = settings.numbers

    def plant(self, engine: Engine) -> None:
        """Overrides acts of an engine that has not run yet; nothing by default."""

    def plant_dialect(self, dialect: Dialect) -> None:
        """Overrides how answers are written; nothing by default."""

    def number(self, name: str) -> int:
        """A whole-number parameter, as given or by default."""
        defaults = {parameter.name: parameter.default for parameter in self.info.parameters}
        return int(self._numbers.get(name, defaults[name]))


def override(part: object, act: str, replacement: Callable[..., object]) -> None:
    """Puts ``replacement`` in the place of one method of one object, which may be an override already.

    Raises:
        AttributeError: the object has no such method.
    """
    if not callable(getattr(part, act)):
        raise AttributeError(f"{act} of {type(part).__name__} is not a method")
    setattr(part, act, replacement)
