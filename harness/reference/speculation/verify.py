"""Accepting and rejecting drafts, so that the output is distributed as without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.reference.constraint.base import Constraint
from harness.reference.model.arrays import F32
from harness.reference.sampling import (
    ACCEPT_STREAM,
    F64,
    TARGET_STREAM,
    SamplingParams,
    distribution,
    draw,
    uniform,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The tokens a step brings: the first ``accepted`` of them are drafts, then comes one of the model's own.

    When a constraint ends on a draft there is no further token.
    """

    tokens: tuple[int, ...]
    accepted: int


class Verifier:
    """Speculative sampling (Leviathan et al. 2023, algorithm 1); with no drafts, plain sampling."""

    def verify(
        self,
        logits: F32,
        drafts: Sequence[int],
        proposals: Sequence[F64],
        sampling: SamplingParams,
        position: int,
        constraint: Constraint | None,
    ) -> Verdict:
        """Judges ``k`` drafts against logits ``[k + 1, V]``.

        ``proposals`` are the distributions the drafts were drawn from, ``position`` is the index of the first token in
        the answer.
        """
        tokens: list[int] = []
        for i, draft in enumerate(drafts):
            target = self.target(logits[i], sampling, constraint)
            if not self.accepts(draft, target, proposals[i], uniform(sampling.seed, position + i, ACCEPT_STREAM)):
                u = uniform(sampling.seed, position + i, TARGET_STREAM)
                return Verdict(tokens=(*tokens, draw(self.residual(target, proposals[i]), u)), accepted=i)
            tokens.append(draft)
            if constraint is not None:
                constraint = constraint.advance(draft)
                if constraint.finished():
                    return Verdict(tokens=tuple(tokens), accepted=len(tokens))
        last = self.target(logits[len(drafts)], sampling, constraint)
        token = draw(last, uniform(sampling.seed, position + len(drafts), TARGET_STREAM))
        return Verdict(tokens=(*tokens, token), accepted=len(drafts))

    def target(self, logits: F32, sampling: SamplingParams, constraint: Constraint | None) -> F64:
        """The distribution the model itself would draw from."""
        mask = constraint.allowed() if constraint is not None else None
        allowed = logits if mask is None else np.where(mask, logits, np.float32(-np.inf))
        return distribution(allowed, sampling)

    def accepts(self, draft: int, target: F64, proposal: F64, u: float) -> bool:
        """With probability ``min(1, target / proposal)``."""
        return bool(u * proposal[draft] < target[draft])

    def residual(self, target: F64, proposal: F64) -> F64:
        """What to draw from after a rejection: the part of the target that the proposal does not cover."""
        rest = np.maximum(target - proposal, 0.0)
        return rest if rest.sum() > 0 else target
