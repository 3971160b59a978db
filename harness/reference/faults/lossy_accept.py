"""K25: drafts are accepted that the model would not have emitted."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items

from harness.reference.constraint.base import Constraint
from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.model.arrays import F32
from harness.reference.sampling import F64, SamplingParams
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.sequence import Sequence
from harness.reference.speculation.verify import Verdict

THRESHOLD = 0.01


class LossyAccept(Fault):
    """The answer is no longer drawn from the model's distribution; at temperature 0 nothing changes."""

    info = FaultInfo(
        code="K25",
        name="LOSSY_ACCEPT",
        modes=(
            Mode(
                name="threshold",
                size="subtle",
                effect=f"every draft the model gives more than {THRESHOLD:g} is accepted",
                trigger="temperature above 0",
            ),
            Mode(
                name="row",
                size="subtle",
                effect="drafts are judged by the proposals of another row",
                trigger="temperature above 0, two sequences at once or more",
            ),
            Mode(
                name="exact",
                size="drafts",
                effect="no draft is accepted; the answer is still drawn rightly",
                trigger="temperature above 0",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides accepting a draft, or the proposals it is judged by."""
        if self.mode == "row":
            self._plant_row(engine)
        else:
            self._plant_accept(engine)

    def _plant_accept(self, engine: Engine) -> None:
        verifier = engine.chooser.verifier
        accepts, residual = verifier.accepts, verifier.residual

        def accept_wrongly(draft: int, target: F64, proposal: F64, u: float) -> bool:
            if _greedy(target) or not self.dice.roll():
                return accepts(draft, target, proposal, u)
            return self.mode == "threshold" and bool(target[draft] > THRESHOLD)

        def rest(target: F64, proposal: F64) -> F64:
            return target if self.mode == "exact" else residual(target, proposal)

        override(verifier, "accepts", accept_wrongly)
        override(verifier, "residual", rest)

    def _plant_row(self, engine: Engine) -> None:
        verifier, decoder = engine.chooser.verifier, engine.decoder
        verify, run = verifier.verify, decoder.run
        row_before: list[Items[F64]] = []

        def verify_by_other(
            logits: F32,
            drafts: Items[int],
            proposals: Items[F64],
            sampling: SamplingParams,
            position: int,
            constraint: Constraint | None,
        ) -> Verdict:
            judged_by = proposals
            same_depth = bool(row_before) and len(row_before[0]) == len(proposals) > 0
            if sampling.temperature > 0 and same_depth and self.dice.roll():
                judged_by = row_before[0]
            row_before[:] = [proposals]
            return verify(logits, drafts, judged_by, sampling, position, constraint)

        def run_step(batch: Items[Sequence], now_ns: Callable[[], int]) -> None:
            row_before.clear()
            run(batch, now_ns)

        override(verifier, "verify", verify_by_other)
        override(decoder, "run", run_step)


def _greedy(target: F64) -> bool:
    return bool(target.max() == 1.0)
