"""Records what the embedded engine answers to one document along every path a cache can take, healthy and corrupted.

For each document the model's log-probabilities of 16 positions are kept for a cold run, for resumes from the snapshot
right before the end, one block earlier and eight blocks earlier, and for the same resumes from states that were spoilt
the way a fault class would spoil them. The tokens fed are those of the cold run, so that positions compare; noise and
harmless offsets are added when runs are drawn, not here.

    python benchmarks/eviction_tuples.py CACHE_FOLDER --documents 400 --mode bf16
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness.reference.model.arrays import F32, round_bf16
from harness.reference.model.model import Model
from harness.reference.model.state import LiveState, Snapshot
from harness.reference.tokenizer import Tokenizer
from harness.reference.weights import shipped
from workloads.eviction_documents import document_of_tokens

BLOCK = 64
FAR_BLOCKS = 8
POSITIONS = 16
KEPT = 48
CHUNK = 512
MAIN, OTHER = 0, 1
SHORT_TAILS = (1, 2, 1, 3, 1, 2, 4, 8)
LONG_TAILS = tuple(range(33, 64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One prompt: its ids, the block boundary before its end, and a token sequence that belongs to someone else."""

    ids: np.ndarray
    boundary: int
    other: np.ndarray


class Bench:
    """A model over two slots; `snapshots` are those of the document's cold run by position, `end` the one after it."""

    def __init__(self, mode: str) -> None:
        config, weights = shipped.load("hybrid")
        self.config = replace(config, mtp_layers=0)
        self.model = Model(self.config, weights, mode=mode)  # type: ignore[arg-type]
        dtype = "bfloat16" if mode == "bf16" else "float32"
        self.state = LiveState(self.config, 2, 1024, snapshot_dtype=dtype)  # type: ignore[arg-type]
        self.snapshots: dict[int, Snapshot] = {}
        self.end: Snapshot | None = None
        self.foreign: Snapshot | None = None
        self.foreign_latent: F32 | None = None
        self.latent: F32 = np.zeros(0, np.float32)
        self.tokens: np.ndarray = np.zeros(0, np.int64)
        self.document: Document | None = None

    def take(self, document: Document) -> F32:
        """The cold run: logits of the 16 positions; keeps snapshots, latents and the greedy tokens."""
        self.document, ids, edge = document, document.ids, document.boundary
        self.state.clear(OTHER)
        self.model.prefill(self.state, OTHER, document.other)
        self.foreign, self.foreign_latent = self.state.snapshot(OTHER), self.state.read_latent(OTHER, 0, edge)
        self.state.clear(MAIN)
        self.snapshots = {}
        back = edge - FAR_BLOCKS * BLOCK
        marks = {back - BLOCK, back - 1, back, edge - 2 * BLOCK, edge - BLOCK - 1, edge - BLOCK, edge - 1, edge}
        for stop in sorted({*(mark for mark in marks if mark > 0), CHUNK, len(ids)}):
            hidden = self.model.prefill(self.state, MAIN, ids[int(self.state.length[MAIN]) : stop])
            self.snapshots[stop] = self.state.snapshot(MAIN)
        self.latent = self.state.read_latent(MAIN, 0, edge)
        live = self.state.recurrent[:, MAIN].copy(), self.state.conv[:, MAIN].copy()
        rows = [self.model.logits(hidden[-1:])]
        tokens: list[int] = []
        for _ in range(POSITIONS - 1):
            tokens.append(int(np.argmax(rows[-1][0])))
            step = self.model.step(self.state, np.array([MAIN]), np.array([[tokens[-1]]]))
            rows.append(self.model.logits(step[:, 0]))
        self.tokens = np.asarray(tokens, np.int64)
        self.end = self.state.snapshot(MAIN)
        self.state.recurrent[:, MAIN], self.state.conv[:, MAIN] = live
        self.state.length[MAIN] = len(ids)
        return self._continue(hidden, 1)

    @property
    def ids(self) -> np.ndarray:
        """Ids of the document."""
        assert self.document is not None
        return self.document.ids

    def cold(self, *, first: Snapshot | None = None, pieces: tuple[int, ...] = (CHUNK,), rows: int = 1) -> F32:
        """A cold run again: from a state that is not empty, in other pieces, or decoding beside other rows."""
        assert self.document is not None
        self.state.clear(MAIN)
        if first is not None:
            self.state.restore(MAIN, first)
            self.state.length[MAIN] = 0
        return self._answer(pieces, rows)

    def resume(self, at: int, state: Snapshot, *, back: int | None = None, rows: int = 1, own: bool = True) -> F32:
        """A hit that skips `at` tokens with `state`; `back`: recompute from there; not `own`: foreign latents."""
        latent = self.latent if own else self.foreign_latent
        assert latent is not None
        self.state.clear(MAIN)
        self.state.restore(MAIN, state)
        self.state.write_latent(MAIN, 0, latent[:, :at])
        self.state.length[MAIN] = at if back is None else back
        return self._answer((CHUNK,), rows)

    def advance(self, state: Snapshot, start: int, tokens: np.ndarray, *, by_step: bool = False) -> Snapshot:
        """The state after feeding tokens from position `start` on."""
        self.state.clear(MAIN)
        self.state.restore(MAIN, state)
        self.state.write_latent(MAIN, 0, self.latent[:, :start])
        self.state.length[MAIN] = start
        if by_step:
            for token in tokens:
                self.model.step(self.state, np.array([MAIN]), np.array([[token]]))
        else:
            self.model.prefill(self.state, MAIN, tokens)
        return self.state.snapshot(MAIN)

    def _answer(self, pieces: tuple[int, ...], rows: int) -> F32:
        assert self.document is not None
        ids, start = self.document.ids, int(self.state.length[MAIN])
        edges = [edge for edge in (*pieces, self.document.boundary) if start < edge < len(ids)]
        for stop in sorted({*edges, len(ids)}):
            hidden = self.model.prefill(self.state, MAIN, ids[int(self.state.length[MAIN]) : stop])
        return self._continue(hidden, rows)

    def _continue(self, hidden: F32, rows: int) -> F32:
        """Logits after the prompt and after each of the cold run's tokens."""
        first = self.model.logits(hidden[-1:])
        slots = np.array([MAIN, OTHER][:rows])
        steps = self.model.step(self.state, slots, np.tile(self.tokens, (rows, 1)))
        return np.concatenate([first, self.model.logits(steps[0])])


def _arrays(state: Snapshot, change: Callable[[F32], F32], *, conv: bool = False) -> Snapshot:
    """A snapshot with its recurrent (or convolution) part changed in float32."""
    part = state.conv if conv else state.recurrent
    wide = (part.astype(np.uint32) << 16).view(np.float32) if part.dtype == np.uint16 else part
    changed = change(wide.copy()).astype(np.float32)
    if part.dtype == np.uint16:
        changed = (round_bf16(changed).view(np.uint32) >> 16).astype(np.uint16)
    return replace(state, conv=changed) if conv else replace(state, recurrent=changed)


def _zero(x: F32) -> F32:
    return np.zeros_like(x)


def _one_layer(x: F32) -> F32:
    x[2] = 0
    return x


def _fp8(x: F32) -> F32:
    """Rounded to three mantissa bits, scaled per row."""
    scale = np.abs(x).max(axis=-1, keepdims=True) / 448 + 1e-30
    mantissa, exponent = np.frexp(x / scale)
    return np.ldexp(np.round(mantissa * 16) / 16, exponent) * scale


def _four_bits(x: F32) -> F32:
    scale = np.abs(x).max(axis=-1, keepdims=True) / 7 + 1e-30
    return np.round(x / scale) * scale


def _garbage(x: F32) -> F32:
    return np.random.default_rng(int(np.abs(x).sum() * 1e9) % 2**32).standard_normal(x.shape) * x.std()


Resume = Callable[["Bench", int], F32]


def _from(change: Callable[[Bench, int], Snapshot], *, back: int | None = None) -> Resume:
    """A resume from a changed snapshot, recomputing `back` tokens before the boundary (None: none)."""
    return lambda bench, at: bench.resume(at, change(bench, at), back=None if back is None else at - back)


def _foreign(bench: Bench) -> Snapshot:
    assert bench.foreign is not None
    return bench.foreign


def _end(bench: Bench) -> Snapshot:
    assert bench.end is not None
    return bench.end


def _without_conv(bench: Bench, at: int) -> Snapshot:
    return _arrays(bench.snapshots[at], _zero, conv=True)


def _swapped(bench: Bench, at: int) -> Snapshot:
    return _arrays(bench.snapshots[at], lambda x: np.concatenate([x[:2], _wide(_foreign(bench))[2:]]))


def _changed(change: Callable[[F32], F32]) -> Callable[[Bench, int], Snapshot]:
    return lambda bench, at: _arrays(bench.snapshots[at], change)


HEALTHY: dict[str, Resume] = {
    "healthy": lambda bench, at: bench.resume(at, bench.snapshots[at]),
    "traffic": lambda bench, at: bench.resume(at, bench.snapshots[at], rows=2),
    "decode_filled": _from(
        lambda bench, at: bench.advance(
            bench.snapshots[at - BLOCK], at - BLOCK, bench.ids[at - BLOCK : at], by_step=True
        )
    ),
}
FAULTS: dict[str, Resume] = {
    "K01": _from(lambda bench, at: _arrays(_without_conv(bench, at), _zero)),
    "K03_early": _from(lambda bench, at: bench.snapshots[at - BLOCK]),
    "K03_late": _from(lambda bench, at: bench.advance(bench.snapshots[at], at - BLOCK, bench.ids[at - BLOCK : at])),
    "K04": _from(lambda bench, at: bench.snapshots[at], back=1),
    "K05": _from(_without_conv),
    "K06": _from(lambda bench, at: _end(bench)),
    "K08_one_layer": _from(_changed(_one_layer)),
    "K09": _from(lambda bench, at: bench.snapshots[at], back=BLOCK),
    "K10": _from(_changed(lambda x: x.swapaxes(-1, -2))),
    "K12_foreign_state": _from(lambda bench, at: _foreign(bench)),
    "K29_swapped": _from(_swapped),
}
NEAR_FAULTS: dict[str, Resume] = {
    "K02_garbage": _from(_changed(_garbage)),
    "K03_early_one": _from(lambda bench, at: bench.snapshots[at - 1]),
    "K08_rolled": _from(_changed(lambda x: np.roll(x, 1, axis=0))),
    "K23": _from(lambda bench, at: bench.advance(bench.snapshots[at], at, np.full(3, bench.ids[0]))),
    "K28": lambda bench, at: bench.resume(at, _foreign(bench), own=False),
    "K07_bf16": _from(_changed(round_bf16)),
    "K07_fp8": _from(_changed(_fp8)),
    "K07_four_bits": _from(_changed(_four_bits)),
}
"""Recorded at the last boundary alone; their far control is taken as healthy."""


def _wide(state: Snapshot) -> F32:
    part = state.recurrent
    return (part.astype(np.uint32) << 16).view(np.float32) if part.dtype == np.uint16 else part  # type: ignore[return-value]


def record(bench: Bench, document: Document, *, faults: bool) -> dict[str, F32]:
    """Log-probabilities ``[16, vocabulary]`` of one document by path and state.

    Paths: cold; near, previous and far are resumes at the last boundary, one block and eight blocks before it.
    """
    edge = document.boundary
    found = {"cold/healthy": bench.take(document)}
    found["cold/traffic"] = bench.cold(pieces=(CHUNK - BLOCK, CHUNK + BLOCK), rows=2)
    paths = {"near": edge, "previous": edge - BLOCK, "far": edge - FAR_BLOCKS * BLOCK}
    wanted: dict[str, dict[str, Resume]] = {
        "near": HEALTHY,
        "previous": HEALTHY,
        "far": {"healthy": HEALTHY["healthy"]},
    }
    if faults:
        found["cold/K11"] = bench.cold(first=bench.foreign)
        wanted = {"near": HEALTHY | FAULTS | NEAR_FAULTS, "previous": HEALTHY | FAULTS, "far": wanted["far"] | FAULTS}
    for path, at in paths.items():
        found |= {f"{path}/{name}": resume(bench, at) for name, resume in wanted[path].items()}
    return {name: _log_softmax(logits) for name, logits in found.items()}


def _log_softmax(logits: F32) -> F32:
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    return (wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))).astype(np.float32)


def _packed(found: dict[str, F32]) -> dict[str, np.ndarray]:
    """The likeliest tokens of every position: names ``[arms]``, ids and values ``[arms, 16, 48]``, best first."""
    table = np.stack(list(found.values()))
    ids = np.argsort(-table, axis=-1, kind="stable")[..., :KEPT]
    values = np.take_along_axis(table, ids, axis=-1)
    return {"names": np.array(list(found)), "ids": ids.astype(np.int16), "values": values}


def make_document(index: int, *, long: bool) -> Document:
    """Document `index`: ten or eleven blocks and a tail; the same text for both tails, cut elsewhere."""
    tokenizer = Tokenizer.load()
    boundary = (10 + index % 2) * BLOCK
    tails = LONG_TAILS if long else SHORT_TAILS
    tail = tails[index // 2 % len(tails)]

    def ids(number: int, tokens: int) -> np.ndarray:
        text = document_of_tokens(7, "tuples", number, tokens=tokens, count=lambda t: len(tokenizer.encode(t)))
        return np.asarray(tokenizer.encode(text), np.int64)

    mine = ids(index, boundary + tail)
    return Document(ids=mine, boundary=(len(mine) - 1) // BLOCK * BLOCK, other=ids(10**6 + index, boundary + BLOCK))


def main() -> None:
    """Records what is missing of the wanted documents; can be stopped and started again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--mode", choices=("bf16", "default"), default="bf16")
    parser.add_argument("--tails", nargs="+", choices=("short", "long"), default=["short", "long"])
    parser.add_argument("--faults", action="store_true", help="record corrupted resumes too")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.mode)
    for index in range(options.first, options.documents):
        for tail in options.tails:
            path = options.folder / f"{options.mode}-{tail}-{index:05d}.npz"
            if not path.exists():
                found = record(bench, make_document(index, long=tail == "long"), faults=options.faults)
                partial = path.with_suffix(".partial.npz")
                np.savez(partial, **_packed(found))
                partial.rename(path)


if __name__ == "__main__":
    main()
