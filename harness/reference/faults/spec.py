"""Faults as they are named on a command line: ``K05`` or ``K05:mode=write,rate=0.1``."""

from __future__ import annotations

from dataclasses import dataclass

from harness.reference.faults.fault import Fault, FaultInfo, FaultSettings
from harness.reference.faults.registry import FAULTS


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """One fault to plant."""

    code: str
    settings: FaultSettings

    def build(self) -> Fault:
        """A new fault with these settings, for one engine."""
        return FAULTS[self.code](self.settings)


def parse_fault(text: str) -> FaultSpec:
    """Reads ``CODE[:NAME=VALUE,...]``, where a name is ``mode``, ``rate``, ``seed`` or one of the fault's parameters.

    Raises:
        ValueError: no such fault, name, mode, or number, or a rate for a fault that happens always.
    """
    code, _, rest = text.partition(":")
    if code not in FAULTS:
        raise ValueError(f"no fault {code!r}; there are {', '.join(FAULTS)}")
    info = FAULTS[code].info
    mode, numbers = info.modes[0].name, dict[str, float]()
    for item in filter(None, rest.split(",")):
        name, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"{item!r} of fault {code} is not NAME=VALUE")
        if name == "mode":
            mode = _mode(info, value)
        else:
            numbers[name] = _number(info, name, value)
    if "rate" in numbers and FAULTS[code].always:
        raise ValueError(f"fault {code} happens always: it takes no rate")
    rate, seed = numbers.pop("rate", 1.0), int(numbers.pop("seed", 0))
    return FaultSpec(code=code, settings=FaultSettings(mode=mode, rate=rate, seed=seed, numbers=numbers))


def describe_faults() -> list[str]:
    """One line for each fault: code, name, modes with their size, parameters with their defaults."""
    return [_describe(fault.info) for fault in FAULTS.values()]


def _describe(info: FaultInfo) -> str:
    modes = " | ".join(f"{mode.name} ({mode.size}): {mode.effect}; when: {mode.trigger}" for mode in info.modes)
    numbers = "".join(f" [{number.name}={number.default:g}: {number.help}]" for number in info.parameters)
    return f"{info.code} {info.name}: {modes}{numbers}"


def _mode(info: FaultInfo, name: str) -> str:
    known = [mode.name for mode in info.modes]
    if name not in known:
        raise ValueError(f"fault {info.code} has no mode {name!r}; it has {', '.join(known)}")
    return name


def _number(info: FaultInfo, name: str, value: str) -> float:
    known = ["rate", "seed", *(parameter.name for parameter in info.parameters)]
    if name not in known:
        raise ValueError(f"fault {info.code} has no {name!r}; it has mode, {', '.join(known)}")
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{name} of fault {info.code} must be a number, not {value!r}") from None
