"""K26: drafts are counted wrongly."""

from __future__ import annotations

from harness.reference.faults.fault import Fault, FaultInfo, Mode, override
from harness.reference.model.arrays import F32
from harness.reference.sampling import TokenLogprob
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.sequence import Sequence
from harness.reference.speculation.verify import Verdict


class AcceptMetric(Fault):
    """Answers and drafts are right, the counters are not."""

    info = FaultInfo(
        code="K26",
        name="ACCEPT_METRIC_WRONG",
        modes=(
            Mode(
                name="bonus",
                size="accounting",
                effect="the model's own token of each step counts as an accepted draft",
                trigger="any verify step; more accepted than drafted when all are",
            ),
            Mode(name="twice", size="accounting", effect="accepted drafts count twice", trigger="any accepted draft"),
            Mode(
                name="finish",
                size="accounting",
                effect="counters move only when a sequence ends, and not when it is aborted",
                trigger="any verify step",
            ),
            Mode(
                name="eos",
                size="accounting",
                effect="drafts accepted behind the end of the answer count",
                trigger="an answer that ends on an accepted draft with more behind it",
            ),
        ),
    )

    def plant(self, engine: Engine) -> None:
        """Overrides counting, and choosing to know what was accepted in all."""
        counter, chooser = engine.decoder.counter, engine.chooser
        count, choose = counter.count, chooser.choose
        chosen: dict[str, int] = {}
        uncounted: dict[str, list[tuple[int, int]]] = {}

        def choose_and_note(sequence: Sequence, logits: F32) -> tuple[Verdict, list[TokenLogprob]]:
            verdict, logprobs = choose(sequence, logits)
            chosen[sequence.request.request_id] = verdict.accepted
            return verdict, logprobs

        def count_wrongly(sequence: Sequence, drafted: int, accepted: int) -> None:
            name = sequence.request.request_id
            if self.mode == "finish":
                uncounted.setdefault(name, []).append((drafted, accepted))
                for step in uncounted.pop(name) if sequence.finish is not None and self.dice.roll() else ():
                    count(sequence, *step)
                return
            count(sequence, drafted, accepted)
            extra = {"bonus": 1, "twice": accepted, "eos": chosen[name] - accepted}[self.mode]
            if extra > 0 and self.dice.roll():
                sequence.speculation.accepted += extra
                counter.stats.accepted_tokens += extra

        override(chooser, "choose", choose_and_note)
        override(counter, "count", count_wrongly)
