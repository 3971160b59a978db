"""Which check should see which fault, on which engine; and which variants no check may accuse."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.checks.registry import CHECKS
from harness.reference.faults.registry import FAULTS

# Bfloat16 with its noise, and memory small enough to be flooded within seconds.
BASE = ("--noise", "bf16", "--cache-bytes", "6000000", "--max-model-len", "4096")
DRAFTS = ("--speculative-tokens", "3")
HOST = ("--host-bytes", "64000000")
# So small that a dozen prompts overfill it; so large that a prompt stays cached beside sixteen others.
SMALL = ("--cache-bytes", "1200000", "--max-model-len", "2048")
ROOMY = ("--cache-bytes", "64000000")
# Sixteen requests fill them, and no graph was captured for twelve rows.
FEW_SLOTS = ("--slots", "12")
HEALTHY_SIZE = "healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """checks: those that should see a fault. engine: what it needs beside BASE to happen at all. route: as
    --endpoint-type, where it happens on one route alone. baseline: it shows against a run of one's own before it, as a
    deployment that has become worse does."""

    checks: tuple[str, ...]
    engine: tuple[str, ...] = ()
    route: str = "auto"
    baseline: bool = False


# By code, or by code:mode where a mode needs something else than the others.
WATCHES: dict[str, Watch] = {
    "K01": Watch(checks=("eviction",)),
    "K02": Watch(checks=("eviction",)),
    "K03": Watch(checks=("eviction",)),
    "K03:packed": Watch(checks=("eviction", "isolation")),
    "K04": Watch(checks=("eviction",)),
    "K05": Watch(checks=("eviction",)),
    "K06": Watch(checks=("eviction",)),
    "K07": Watch(checks=("eviction",)),
    "K08": Watch(checks=("eviction",)),
    "K09": Watch(checks=("eviction",)),
    "K09:mtp": Watch(checks=("eviction", "spec-parity"), engine=DRAFTS),
    "K10": Watch(checks=("eviction", "spec-parity")),
    "K11": Watch(checks=("isolation", "heartbeat")),
    "K12": Watch(checks=("isolation",)),
    "K13:preempt": Watch(checks=("isolation",), engine=(*SMALL, *HOST)),
    "K13:rewind": Watch(checks=("eviction",)),
    "K14": Watch(checks=("isolation",), engine=ROOMY),
    "K15": Watch(checks=("isolation",)),
    "K15:last": Watch(checks=("isolation",), engine=FEW_SLOTS),
    "K17": Watch(checks=("isolation",), engine=DRAFTS),
    "K18": Watch(checks=("isolation",)),
    "K19:snapshot": Watch(checks=("eviction", "heartbeat")),
    "K19:slot": Watch(checks=("isolation", "heartbeat")),
    "K20": Watch(checks=("spec-parity",), engine=DRAFTS),
    "K21": Watch(checks=("spec-parity",), engine=DRAFTS),
    "K22": Watch(checks=("spec-parity",), engine=DRAFTS),
    "K23": Watch(checks=("isolation",), engine=(*DRAFTS, *ROOMY, "--policy", "fork")),
    "K24": Watch(checks=("mtp",), engine=DRAFTS, baseline=True),
    "K24:tier": Watch(checks=("mtp",), engine=(*DRAFTS, *HOST), baseline=True),
    "K25": Watch(checks=("spec-parity",), engine=DRAFTS),
    "K25:exact": Watch(checks=("mtp",), engine=DRAFTS),
    "K26": Watch(checks=("mtp",), engine=DRAFTS),
    "K27": Watch(checks=("cached-tokens",), engine=ROOMY),
    "K28": Watch(checks=("eviction",)),
    "K29": Watch(checks=("eviction",), engine=HOST),
    "K30": Watch(checks=("cached-tokens",), engine=ROOMY),
    "K30:mtp": Watch(checks=("cached-tokens",), engine=(*DRAFTS, *ROOMY)),
    "K31": Watch(checks=("cached-tokens",), engine=ROOMY),
    # What gave way finds its own blocks again in the host's memory alone.
    "K31:retraction": Watch(checks=("isolation",), engine=(*SMALL, *HOST)),
    "K32": Watch(checks=("cached-tokens", "stream"), engine=ROOMY),
    "K32:reasoning": Watch(checks=("stream",), engine=ROOMY, route="chat"),
    "K33": Watch(checks=("stream", "cached-tokens"), engine=ROOMY),
    "K34": Watch(checks=("cached-tokens",), engine=ROOMY),
    "K34:tier": Watch(checks=("cached-tokens",), engine=HOST),
    "K35": Watch(checks=("stream", "cached-tokens"), engine=ROOMY),
}
# Checks that look for any planted fault.
LOOKING = tuple(name for name in CHECKS if any(name in watch.checks for watch in WATCHES.values()))
# One of every kind, by the check that finds it soonest.
QUICK: tuple[str, ...] = (
    "K01:skip", "K11:unzeroed", "K12:modulo", "K14:slot", "K17:counts",
    "K19:slot", "K20:keep", "K27:parent", "K31:latent", "K32:negative", "K33:missing", "K35:drop",
)  # fmt: skip
# The mode that is none under bfloat16: snapshots are rounded already.
CONTROL = "K07:cast"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One server to be asked: a fault in a mode, or a healthy variant, whose code is "".

    baseline: arguments of the healthy engine that is asked first, None where no baseline is needed.
    """

    code: str
    mode: str
    size: str
    checks: tuple[str, ...]
    engine: tuple[str, ...]
    route: str = "auto"
    baseline: tuple[str, ...] | None = None


HEALTHY: dict[str, tuple[str, ...]] = {
    "bf16 with drafts": DRAFTS,
    "bf16": (),
    "hits off by 0.03 nats": ("--hit-offset", "0.03"),
    "policy fork": ("--policy", "fork"),
    "two replicas": ("--replicas", "2"),
    "host tier": HOST,
    "memory pressure": SMALL,
    "granularity above the prompts": ("--state-interval", "4096"),
    "control K07:cast": ("--fault", CONTROL.replace(":", ":mode=")),
}
QUICK_HEALTHY = ("bf16 with drafts",)


def modes() -> tuple[str, ...]:
    """Every fault in every mode as code:mode, but for the control."""
    named = [f"{code}:{mode.name}" for code, fault in FAULTS.items() for mode in fault.info.modes]
    return tuple(name for name in named if name != CONTROL)


def chosen(texts: Sequence[str]) -> tuple[str, ...]:
    """Modes by code or code:mode, in the order of the list; ValueError for what is neither."""
    known = modes()
    for text in texts:
        if not any(text in (name, name.partition(":")[0]) for name in known):
            raise ValueError(f"--faults: there is no {text}; ling-bench serve --list-faults prints them")
    return tuple(name for name in known if name in texts or name.partition(":")[0] in texts)


def planted(name: str, *, full: bool) -> Planted:
    """A fault and who is to look for it: every check there is with `full`."""
    code, _, mode = name.partition(":")
    watch = WATCHES[name] if name in WATCHES else WATCHES[code]
    return Planted(
        code=code,
        mode=mode,
        size=FAULTS[code].info.mode(mode).size,
        checks=tuple(CHECKS) if full else watch.checks,
        engine=(*BASE, *watch.engine, "--fault", f"{code}:mode={mode}"),
        route=watch.route,
        baseline=(*BASE, *watch.engine) if watch.baseline else None,
    )


def variants(names: Collection[str], checks: Sequence[str] = tuple(CHECKS)) -> tuple[Planted, ...]:
    """Healthy variants, asked by every check, or by those given."""
    return tuple(
        Planted(code="", mode=name, size=HEALTHY_SIZE, checks=tuple(checks), engine=(*BASE, *HEALTHY[name]))
        for name in HEALTHY
        if name in names
    )
