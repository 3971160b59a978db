"""Settings of the embedded engine, as data that any command line can offer."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Literal

Arch = Literal["hybrid", "attention"]
DialectName = Literal["vllm", "sglang", "llamacpp"]
PolicyName = Literal["align", "fork"]
Noise = Literal["none", "bf16"]

OptionValue = str | int | float | bool | tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How the embedded engine is built and served; see ``OPTIONS`` for what each field means.

    Raises:
        ValueError: a value is out of range or two values contradict each other.
    """

    host: str = "127.0.0.1"
    port: int = 0
    model_name: str = "ling-mini"
    dialect: DialectName = "vllm"
    arch: Arch = "hybrid"
    max_model_len: int = 16384
    slots: int = 32
    max_num_queued_reqs: int = 0
    chunk: int = 512
    block_size: int = 64
    cache_bytes: int = 256 << 20
    host_bytes: int = 0
    no_prefix_caching: bool = False
    policy: PolicyName = "align"
    state_interval: int = 512
    speculative_tokens: int = 0
    deterministic: bool = False
    noise: Noise = "none"
    hit_offset: float = 0.0
    replicas: int = 1
    seed: int = 0
    no_cache_report: bool = False
    request_log: str | None = None
    exit_with_parent: bool = False
    fault: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("max_model_len", "slots", "chunk", "block_size", "cache_bytes", "state_interval", "replicas"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in ("port", "host_bytes", "speculative_tokens", "hit_offset", "max_num_queued_reqs"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
        if self.chunk < self.slots * (self.speculative_tokens + 1) + self.block_size:
            raise ValueError("chunk must hold one step of every slot and a block: slots * (drafts + 1) + block_size")
        if self.state_interval % self.block_size:
            raise ValueError("state_interval must be a multiple of block_size")
        if self.deterministic and self.noise != "none":
            raise ValueError("deterministic and noise exclude each other")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting as data: ``kind`` is the type of its value, ``choices`` is None when any value of it will do.

    A ``repeated`` one may be given several times and holds a tuple of values.
    """

    name: str
    kind: type[str] | type[int] | type[float] | type[bool]
    default: OptionValue
    help: str
    choices: tuple[str, ...] | None = None
    repeated: bool = False

    @property
    def flag(self) -> str:
        """How it is spelled on a command line."""
        return "--" + self.name.replace("_", "-")


_HELP: Mapping[str, tuple[type[str] | type[int] | type[float] | type[bool], str]] = {
    "host": (str, "address to listen on"),
    "port": (int, "port to listen on; 0 takes a free one"),
    "model_name": (str, "name the model is served under"),
    "dialect": (str, "server whose routes, fields, errors and metric names to speak"),
    "arch": (str, "hybrid (KDA and MLA) or its pure-attention twin"),
    "max_model_len": (int, "longest prompt and answer together, in tokens"),
    "slots": (int, "sequences that can run at once"),
    "max_num_queued_reqs": (int, "requests that may wait beside as many as run; more are refused; 0 is no limit"),
    "chunk": (int, "token budget of one step; longer prompts are prefilled in chunks"),
    "block_size": (int, "tokens of one prefix-cache block"),
    "cache_bytes": (int, "memory for latents and states, of running sequences and of the prefix cache together"),
    "host_bytes": (int, "memory of the host tier that evicted blocks and states move to; 0 is none"),
    "no_prefix_caching": (bool, "compute every prompt in full"),
    "policy": (str, "where states are kept: align (block boundaries) or fork (shared-prefix forks and ends of turns)"),
    "state_interval": (int, "align only: tokens between the states kept along a prompt"),
    "speculative_tokens": (int, "tokens drafted by the MTP layer for each step; 0 is off"),
    "deterministic": (bool, "bit-exact answers whatever the batch, the chunks and the cache; slower"),
    "noise": (str, "bf16: round activations and snapshots, with reductions that depend on the batch"),
    "hit_offset": (float, "a persistent harmless difference of cache hits against cold runs, RMS in nats"),
    "replicas": (int, "engines, each with a cache of its own, behind the one port in turn"),
    "seed": (int, "seed of the seeds given to requests that bring none"),
    "no_cache_report": (bool, "leave cached tokens out of usage, as servers do without their flag for it"),
    "request_log": (str, "file that gets one JSON line for every request received"),
    "exit_with_parent": (bool, "stop when standard input closes"),
    "fault": (str, "plant a fault, as K05 or K05:mode=write,rate=0.1; see --list-faults; may be repeated"),
}
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "dialect": ("vllm", "sglang", "llamacpp"),
    "arch": ("hybrid", "attention"),
    "policy": ("align", "fork"),
    "noise": ("none", "bf16"),
}


def _listing() -> tuple[Option, ...]:
    listed = []
    for field in fields(EngineOptions):
        assert field.default is not MISSING
        kind, text = _HELP[field.name]
        option = Option(
            name=field.name,
            kind=kind,
            default=field.default,
            help=text,
            choices=_CHOICES.get(field.name),
            repeated=isinstance(field.default, tuple),
        )
        listed.append(option)
    return tuple(listed)


OPTIONS: tuple[Option, ...] = _listing()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Offers every setting on an argparse parser."""
    for option in OPTIONS:
        text = f"{option.help} (default: {option.default})"
        if option.kind is bool:
            parser.add_argument(option.flag, action="store_true", help=option.help)
        elif option.repeated:
            parser.add_argument(option.flag, action="append", default=[], help=option.help)
        else:
            parser.add_argument(
                option.flag, type=option.kind, default=option.default, choices=option.choices, help=text
            )


def from_values(values: Mapping[str, OptionValue]) -> EngineOptions:
    """Settings from parsed values by field name; other names are left alone.

    Raises:
        ValueError: see EngineOptions.
    """
    known = {option.name: values[option.name] for option in OPTIONS if option.name in values}
    for option in OPTIONS:
        value = known.get(option.name)
        if option.repeated and isinstance(value, list):
            known[option.name] = tuple(value)
    return EngineOptions(**known)  # type: ignore[arg-type]
