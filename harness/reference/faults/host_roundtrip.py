"""K29: the way through the host tier changes what is stored."""

from __future__ import annotations

from harness.reference.cache.tier import Entry, LatentBlock
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.model.state import Snapshot
from harness.reference.scheduler.engine import Engine


class HostRoundtrip(Fault):
    """A copy between the tiers is early, partial or misplaced; device hits of what came back are wrong as well."""

    info = FaultInfo(
        code="K29",
        name="HOST_TIER_ROUNDTRIP",
        modes=(
            Mode(
                name="stale",
                size="medium",
                effect="a copy back ends before its data has come: it holds what was copied back before it",
                trigger="a return from the host tier, after an earlier copy",
            ),
            Mode(
                name="partial",
                size="gross",
                effect="only the first half of the layers' bytes is copied back",
                trigger="a return from the host tier",
            ),
            Mode(
                name="swap",
                size="gross",
                effect="every second entry and the one before it of its kind change places",
                trigger="evictions to the host tier, two of a kind or more, then a return",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides copying to and from the host tier."""
        copier = engine.memory.evictor.copier
        to_host, to_device = copier.to_host, copier.to_device
        staged: dict[type[Entry], Entry] = {}

        def offload(entry: Entry) -> Entry:
            copy = to_host(entry)
            partner = staged.pop(type(copy), None)
            if partner is None:
                staged[type(copy)] = copy
            elif self.dice.roll():
                _exchange(partner, copy)
            return copy

        def load(entry: Entry) -> Entry:
            copy = to_device(entry)
            before = staged.get(type(copy))
            staged[type(copy)] = to_device(entry)
            if self.mode == "partial":
                if self.dice.roll():
                    _halve(copy)
            elif before is not None and self.dice.roll():
                _exchange(copy, to_device(before))
            return copy

        if self.mode == "swap":
            override(copier, "to_host", offload)
        else:
            override(copier, "to_device", load)


def _exchange(one: Entry, other: Entry) -> None:
    """Makes two entries of one kind change their contents; lengths stay."""
    if isinstance(one, LatentBlock) and isinstance(other, LatentBlock):
        pairs = [(one.array, other.array)]
    else:
        assert isinstance(one, Snapshot) and isinstance(other, Snapshot)
        pairs = [(one.recurrent, other.recurrent), (one.conv, other.conv), (one.hidden, other.hidden)]  # type: ignore[list-item]
    for here, there in pairs:
        kept = here.copy()
        here[...] = there
        there[...] = kept


def _halve(entry: Entry) -> None:
    """Empties the second half of an entry's bytes."""
    for array in (entry.array,) if isinstance(entry, LatentBlock) else (entry.recurrent, entry.conv):
        flat = array.reshape(-1)
        flat[len(flat) // 2 :] = 0
