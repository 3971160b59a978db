"""Greedy decoding with one draft, done by hand on the model alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.reference.model.model import Model
from harness.reference.model.state import LiveState


def greedy(model: Model, prompt: Sequence[int], count: int, banned: frozenset[int]) -> list[int]:
    """The next ``count`` tokens without drafts; ``banned`` ones, such as those that end an answer, are never taken."""
    state = LiveState(model.config, 1, len(prompt) + count)
    hidden = model.prefill(state, 0, np.asarray(prompt))[-1:]
    out: list[int] = []
    while len(out) < count:
        logits = model.logits(hidden)[0]
        logits[list(banned)] = -np.inf
        out.append(int(logits.argmax()))
        hidden = model.step(state, np.array([0]), np.array([[out[-1]]]))[0]
    return out


def accepted_drafts(model: Model, prompt: Sequence[int], answer: Sequence[int]) -> tuple[int, int]:
    """Drafts made and accepted while generating the greedy ``answer``, one draft a step.

    The next draft starts after the bonus token of an accepted draft, and after the corrected token of a rejected one.
    """
    tokens = np.array([*prompt, *answer])
    state = LiveState(model.config, 1, len(tokens))
    hidden = model.prefill(state, 0, tokens)
    drafts = []
    for position in range(len(tokens) - 1):
        if position < len(prompt) - 1:
            continue
        model.draft_prefill(state, 0, tokens[1 : position + 2], hidden[: position + 1], 0)
        here, token = np.array([position]), tokens[position + 1 : position + 2]
        logits, _ = model.draft_step(state, np.array([0]), token, hidden[position : position + 1], here)
        drafts.append(int(logits[0].argmax()))
    made = right = 0
    newest = len(prompt)
    while newest + 1 < len(tokens):
        made += 1
        hit = drafts[newest - len(prompt)] == tokens[newest + 1]
        right += hit
        newest += 2 if hit else 1
    return made, right
