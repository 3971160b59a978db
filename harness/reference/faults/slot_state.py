"""Edits of one slot's recurrent and convolution state, for faults to share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.reference.model.arrays import F32, U16, from_bf16, to_bf16
from harness.reference.model.state import LiveState, Snapshot
from harness.reference.scheduler.forward import KeptStates, LanguageModel


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    """A copy of one slot's recurrent state ``[kda_layers, heads, K, V]`` and convolution state ``[kda_layers, 3, 3P]``,
    in float32."""

    recurrent: F32
    conv: F32


def read(state: LiveState, slot: int) -> SlotState:
    """The state of a slot."""
    return SlotState(recurrent=state.recurrent[:, slot].copy(), conv=state.conv[:, slot].copy())


def write(state: LiveState, slot: int, content: SlotState) -> None:
    """Puts a state into a slot; its length, hidden vector and latents stay."""
    state.recurrent[:, slot] = content.recurrent
    state.conv[:, slot] = content.conv


def zero(state: LiveState, slot: int) -> None:
    """Empties recurrent and convolution state alone."""
    state.recurrent[:, slot] = 0
    state.conv[:, slot] = 0


def advance(model: LanguageModel, state: LiveState, slot: int, tokens: list[int]) -> None:
    """Feeds tokens to recurrent and convolution state alone: length and hidden vector stay, and so the latents are as
    good as unwritten. Tokens for which the slot has no room are left out."""
    length, hidden = int(state.length[slot]), state.hidden[slot].copy()
    fitting = tokens[: state.capacity - length]
    if fitting:
        model.prefill(state, slot, np.asarray(fitting, np.int64))
    state.length[slot] = length
    state.hidden[slot] = hidden


def passed_through(states: KeptStates, state: LiveState, row: int, slot: int, kept: int) -> SlotState:
    """The state a row of a verify step had after ``kept`` of its tokens; the slot is left as it was."""
    now, length, hidden = read(state, slot), int(state.length[slot]), state.hidden[slot].copy()
    states.rewind(state, row, slot, kept)
    found = read(state, slot)
    write(state, slot, now)
    state.length[slot] = length
    state.hidden[slot] = hidden
    return found


def content_of(snapshot: Snapshot) -> SlotState:
    """A snapshot's state as a copy in float32."""
    return SlotState(recurrent=_wide(snapshot.recurrent), conv=_wide(snapshot.conv))


def overwrite(snapshot: Snapshot, content: SlotState) -> None:
    """Puts a state into the arrays of a snapshot that may already be in the cache."""
    snapshot.recurrent[...] = _as_stored(content.recurrent, snapshot.recurrent)
    snapshot.conv[...] = _as_stored(content.conv, snapshot.conv)


def with_content(snapshot: Snapshot, content: SlotState) -> Snapshot:
    """A snapshot of the same length and hidden vector with another state."""
    return Snapshot(
        recurrent=_as_stored(content.recurrent, snapshot.recurrent),
        conv=_as_stored(content.conv, snapshot.conv),
        hidden=snapshot.hidden,
        length=snapshot.length,
    )


def _wide(x: F32 | U16) -> F32:
    return from_bf16(np.asarray(x)) if x.dtype == np.uint16 else np.array(x, np.float32)


def _as_stored(x: F32, like: F32 | U16) -> F32 | U16:
    return to_bf16(x) if like.dtype == np.uint16 else x.copy()
