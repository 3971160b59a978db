"""Drafting changes how fast tokens come, never which, nor how they are distributed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reference.model.arrays import F32
from harness.reference.sampling import (
    DRAFT_STREAM,
    F64,
    SamplingParams,
    distribution,
    draw,
    log_softmax,
    token_logprob,
    uniform,
)
from harness.reference.scheduler.sequence import Sequence
from harness.reference.speculation.drafter import Drafter
from harness.reference.speculation.rollback import Rollback
from harness.reference.speculation.verify import Verifier
from tests.reference.driving import VOCAB, ask, drive, largest_gap, tiny_engine, tiny_model, tiny_options

RNG = np.random.default_rng(2)
PROMPT = [int(token) for token in RNG.integers(1, VOCAB, 30)]
CHI2_999 = {5: 20.52, 7: 24.32, 15: 37.70}


def chi_square(counts: F64, expected: F64) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("drafts", [1, 2, 4])
@pytest.mark.parametrize("policy", ["align", "fork"])
def test_greedy_answers_are_those_without_drafts(drafts: int, policy: str) -> None:
    requests = [ask(f"r{i}", PROMPT[: 5 + 4 * i], max_tokens=40) for i in range(4)]
    plain = drive(tiny_engine(tiny_options(policy=policy)), requests)
    engine = tiny_engine(tiny_options(policy=policy, speculative_tokens=drafts))
    drafted = drive(engine, requests)
    for request in requests:
        assert largest_gap(plain[request.request_id], drafted[request.request_id]) < 1e-4
    assert 0 < engine.stats.accepted_tokens < engine.stats.drafted_tokens


def test_tokens_are_one_plus_steps_plus_accepted_drafts_or_one_less() -> None:
    engine = tiny_engine(tiny_options(speculative_tokens=3))
    answers = drive(engine, [ask(f"r{i}", PROMPT[: 9 + i], max_tokens=30 + i) for i in range(4)])
    for answer in answers.values():
        assert answer.usage is not None
        counts = answer.usage.speculation
        assert len(answer.tokens) - counts.steps - counts.accepted in (0, 1)
        assert sum(counts.histogram) == counts.steps
        assert sum(i * n for i, n in enumerate(counts.histogram)) == counts.accepted
        assert answer.deltas < len(answer.tokens)
    stats = engine.stats
    assert stats.accepted_tokens == sum(stats.accepted_per_position)
    assert all(a >= b for a, b in zip(stats.accepted_per_position, stats.accepted_per_position[1:], strict=False))
    assert 1 <= 1 + stats.accepted_tokens / stats.draft_steps <= 4


def test_a_stop_inside_accepted_drafts_ends_the_answer_there() -> None:
    plain = drive(tiny_engine(), [ask("a", PROMPT, max_tokens=40)])["a"]
    for cut in range(2, 12):
        stop = plain.tokens[cut]
        if stop in plain.tokens[:cut]:
            continue
        engine = tiny_engine(tiny_options(speculative_tokens=4))
        answer = drive(engine, [ask("a", PROMPT, max_tokens=40, stop_token_ids=(stop,))])["a"]
        assert answer.tokens == plain.tokens[: cut + 1]
        assert answer.usage is not None
        counts = answer.usage.speculation
        assert len(answer.tokens) - counts.steps - counts.accepted in (0, 1)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_accepted_or_resampled_tokens_follow_the_target(data: st.DataObject) -> None:
    """Exact, not statistical: the chance of each token, summed over drafts, is the target's."""
    width = 6
    weights = st.lists(st.integers(0, 9), min_size=width, max_size=width).filter(any)
    target = np.asarray(data.draw(weights), np.float64)
    proposal = np.asarray(data.draw(weights), np.float64)
    target, proposal = target / target.sum(), proposal / proposal.sum()
    verifier = Verifier()
    total = np.zeros(width)
    for draft in np.flatnonzero(proposal):
        accept = min(1.0, target[draft] / proposal[draft])
        total[draft] += proposal[draft] * accept
        if accept < 1:
            residual = verifier.residual(target, proposal)
            total += proposal[draft] * (1 - accept) * residual / residual.sum()
        below, above = max(accept - 1e-9, 0.0), accept + 1e-9
        assert verifier.accepts(int(draft), target, proposal, below * (1 - 1e-9)) or accept == 0
        assert not verifier.accepts(int(draft), target, proposal, above) or accept == 1
    assert total == pytest.approx(target)


@pytest.mark.parametrize("top_p", [1.0, 0.8])
def test_sampled_first_and_second_tokens_are_distributed_as_without_drafts(top_p: float) -> None:
    """Chi-square at 0.1% on the verifier, with drafts drawn from another model's distribution."""
    width, draws = 8, 4000
    logits: F32 = np.random.default_rng(0).normal(0, 1.5, (2, width)).astype(np.float32)
    other: F32 = np.random.default_rng(1).normal(0, 1.5, width).astype(np.float32)
    verifier, firsts, seconds = Verifier(), np.zeros(width), np.zeros(width)
    accepted = 0
    for seed in range(draws):
        sampling = SamplingParams(temperature=1.0, top_p=top_p, seed=seed)
        proposal = distribution(other, sampling)
        draft = draw(proposal, uniform(seed, 0, DRAFT_STREAM))
        verdict = verifier.verify(logits, [draft], [proposal], sampling, 0, None)
        firsts[verdict.tokens[0]] += 1
        accepted += verdict.accepted
        if verdict.accepted:
            seconds[verdict.tokens[1]] += 1
    assert 0.2 * draws < accepted < 0.95 * draws
    for counts, row in ((firsts, logits[0]), (seconds, logits[1])):
        target = distribution(row, SamplingParams(temperature=1.0, top_p=top_p))
        kept = target > 0
        assert counts[~kept].sum() == 0
        assert chi_square(counts[kept], target[kept] * counts.sum()) < CHI2_999[7]


def test_the_engine_samples_as_without_drafts() -> None:
    """Second tokens of 600 answers at temperature 1, drafted and not, against the model's own distribution."""
    draws = 600
    first = drive(tiny_engine(), [ask("a", PROMPT, max_tokens=1)])["a"].tokens[0]
    prompt = [*PROMPT, first]
    requests = [ask(f"s{i}", prompt, max_tokens=2, temperature=1.0, seed=i, logprobs=VOCAB) for i in range(draws)]
    for drafts in (0, 2):
        engine = tiny_engine(tiny_options(speculative_tokens=drafts, slots=4))
        answers = drive(engine, requests)
        counts = np.zeros(VOCAB)
        expected = np.zeros(VOCAB)
        for answer in answers.values():
            counts[answer.tokens[1]] += 1
            expected[[token for token, _ in answer.logprobs[1].top]] += np.exp([p for _, p in answer.logprobs[1].top])
        groups = np.argsort(-expected)
        split = [groups[:1], groups[1:2], groups[2:3], groups[3:5], groups[5:8], groups[8:]]
        observed = np.asarray([counts[g].sum() for g in split])
        wanted = np.asarray([expected[g].sum() for g in split])
        assert chi_square(observed, wanted) < CHI2_999[5]
        assert engine.stats.accepted_tokens > 0 or drafts == 0


def test_a_sampled_answer_depends_on_its_seed_alone() -> None:
    requests = [ask(f"r{i}", PROMPT, max_tokens=20, temperature=1.0, seed=i % 2) for i in range(4)]
    answers = drive(tiny_engine(tiny_options(speculative_tokens=2)), requests, arrivals=[0, 1, 5, 9])
    assert answers["r0"].tokens == answers["r2"].tokens != answers["r1"].tokens == answers["r3"].tokens


class NoRollback(Rollback):
    def rewind(self, states: object, row: int, slot: int, kept: int) -> None:
        self.state.length[slot] -= 0


class ConfusedDrafter(Drafter):
    def absorb_accepted(self, slot: int, start: int, tokens: object, hidden: F32) -> None:
        noise = np.random.default_rng(start).normal(0, 30, self.state.latent[-1, slot, :start].shape)
        self.state.latent[-1, slot, :start] = noise


def test_rejected_drafts_left_in_the_state_would_show() -> None:
    engine = tiny_engine(tiny_options(speculative_tokens=3))
    engine.decoder.rollback = NoRollback(engine.decoder.rollback.state)
    request = ask("a", PROMPT, max_tokens=40)
    clean = drive(tiny_engine(), [request])["a"]
    assert largest_gap(clean, drive(engine, [request])["a"]) > 1e-3


def test_a_draft_layer_with_wrong_latents_changes_acceptance_and_nothing_else() -> None:
    request = ask("a", PROMPT, max_tokens=60)
    clean = tiny_engine(tiny_options(speculative_tokens=3))
    engine = tiny_engine(tiny_options(speculative_tokens=3))
    healthy = engine.decoder.drafter
    assert healthy is not None
    engine.decoder.drafter = ConfusedDrafter(tiny_model(), healthy.state, healthy.depth)
    assert largest_gap(drive(clean, [request])["a"], drive(engine, [request])["a"]) < 1e-4
    assert engine.stats.accepted_tokens != clean.stats.accepted_tokens


def test_drafts_after_a_hit_are_those_of_a_cold_run() -> None:
    """The draft layer's cache comes back with a hit: verify steps accept the same drafts as cold."""
    for policy in ("align", "fork"):
        engine = tiny_engine(tiny_options(speculative_tokens=2, policy=policy))
        counts = []
        for i in range(3):
            usage = drive(engine, [ask(f"r{i}", PROMPT, max_tokens=40)])[f"r{i}"].usage
            assert usage is not None
            counts.append((usage.speculation, usage.cached_tokens > 0))
        assert counts[0][0] == counts[1][0] == counts[2][0]
        assert [hit for _, hit in counts] == [False, True, True]


class TestSampling:
    """Distributions and logprobs."""

    logits: F32 = np.asarray([2.0, 1.0, 0.5, -1.0, 1.0], np.float32)

    def test_greedy_takes_the_first_of_the_best(self) -> None:
        assert distribution(self.logits, SamplingParams(temperature=0)).tolist() == [1, 0, 0, 0, 0]

    def test_top_k_top_p_and_min_p_cut_the_tail(self) -> None:
        full = distribution(self.logits, SamplingParams())
        assert np.flatnonzero(distribution(self.logits, SamplingParams(top_k=1))).tolist() == [0]
        assert np.flatnonzero(distribution(self.logits, SamplingParams(top_p=0.6))).tolist() == [0, 1]
        assert np.flatnonzero(distribution(self.logits, SamplingParams(min_p=0.3))).tolist() == [0, 1, 4]
        assert full.sum() == pytest.approx(1)

    @given(u=st.floats(0, 1, exclude_max=True))
    def test_a_draw_never_takes_what_has_no_chance(self, u: float) -> None:
        assert draw(np.asarray([0.0, 0.5, 0.0, 0.5, 0.0]), u) in (1, 3)

    def test_logprobs_rank_and_sum(self) -> None:
        table = log_softmax(self.logits)
        item = token_logprob(table, 4, 3)
        assert item.rank == 2 and [token for token, _ in item.top] == [0, 1, 4]
        assert np.exp(table).sum() == pytest.approx(1)


def test_a_sequence_keeps_its_drafts_through_preemption() -> None:
    engine = tiny_engine(tiny_options(speculative_tokens=2))
    engine.submit(ask("a", PROMPT, max_tokens=20))
    for _ in range(4):
        engine.step()
    sequence: Sequence = engine.scheduler.running[0]
    drafts = list(sequence.drafts)
    engine.scheduler.preempt_all()
    assert sequence.drafts == drafts and sequence.slot == -1
