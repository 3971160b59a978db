"""What is sent to an engine to bring out a planted fault, step by step.

A play drives an engine and names some of its requests as victims: those a fault should reach. Their tokens can be fixed
beforehand, so that a healthy and a faulty engine are asked for the same distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.reference.config import ModelConfig
from harness.reference.options import EngineOptions
from harness.reference.sampling import SamplingParams, TokenLogprob
from harness.reference.scheduler.engine import Engine
from harness.reference.scheduler.request import Request, Usage

Material = Callable[[str, int], list[int]]
"""So many token ids of the text of a name; a longer one begins with the shorter."""


@dataclass(frozen=True)
class Follow:
    """A constraint that leaves one token at a time, and everything after the last."""

    tokens: tuple[int, ...]
    vocab: int

    def allowed(self) -> npt.NDArray[np.bool_] | None:
        if not self.tokens:
            return None
        mask = np.zeros(self.vocab, bool)
        mask[self.tokens[0]] = True
        return mask

    def advance(self, token: int) -> Follow:
        return Follow(self.tokens[1:], self.vocab)

    def finished(self) -> bool:
        return False


@dataclass
class Answer:
    """Everything one request got; logprobs are those of the whole vocabulary, for victims alone."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    usage: Usage | None = None


class Player:
    """Sends requests to an engine and collects answers; ``follow`` fixes the tokens of the victims, in order."""

    def __init__(
        self,
        engine: Engine,
        options: EngineOptions,
        config: ModelConfig,
        material: Material,
        *,
        victim_tokens: int,
        follow: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.engine, self.options, self.config = engine, options, config
        self.material, self.victim_tokens, self.follow = material, victim_tokens, follow
        self.block = options.block_size
        self.answers: dict[str, Answer] = {}
        self.victims: list[Answer] = []

    def submit(
        self, prompt: Sequence[int], *, tokens: int = 2, victim: bool = False, salt: str = "", temperature: float = 0.0
    ) -> str:
        """Hands a request in; a victim's number of tokens is the same for all."""
        name, constraint = f"r{len(self.answers)}", None
        if victim and self.follow is not None:
            constraint = Follow(tuple(self.follow[len(self.victims)]), self.config.vocab_size)
        sampling = SamplingParams(
            temperature=temperature,
            max_tokens=self.victim_tokens if victim else tokens,
            ignore_eos=True,
            logprobs=self.config.vocab_size if victim else None,
        )
        self.answers[name] = Answer()
        if victim:
            self.victims.append(self.answers[name])
        request = Request(
            request_id=name, prompt=tuple(prompt), sampling=sampling, cache_salt=salt, constraint=constraint
        )
        self.engine.submit(request)
        return name

    def run(self, steps: int = 100_000) -> None:
        """Runs so many steps, or until nothing is left to do."""
        for _ in range(steps):
            if not self.engine.busy:
                return
            for delta in self.engine.step():
                answer = self.answers[delta.request_id]
                answer.tokens += delta.tokens
                answer.logprobs += delta.logprobs
                answer.usage = delta.usage

    def send(self, prompt: Sequence[int], **how: object) -> Answer:
        """Hands a request in and waits for its answer."""
        name = self.submit(prompt, **how)  # type: ignore[arg-type]
        self.run()
        return self.answers[name]

    def text(self, name: str, blocks: int, more: int = 0) -> list[int]:
        """Tokens of so many blocks and some more."""
        return self.material(name, blocks * self.block + more)


def resend(tail: int, blocks: int = 7) -> Callable[[Player], None]:
    """One prompt twice: a hit that leaves ``tail`` tokens."""

    def play(player: Player) -> None:
        prompt = player.text("a", blocks, tail)
        player.send(prompt, tokens=player.block + 4)
        player.send(prompt, victim=True)

    return play


def cold(player: Player) -> None:
    """One prompt once."""
    player.send(player.text("a", 7, 5), victim=True)


def thrice(tail: int) -> Callable[[Player], None]:
    """One prompt three times, the third as the later sharer of what the second had."""

    def play(player: Player) -> None:
        prompt = player.text("a", 7, tail)
        player.send(prompt)
        player.send(prompt, tokens=1)
        player.send(prompt, victim=True)

    return play


def many_snapshots(player: Player) -> None:
    """As many states as a pool holds are kept before the one that is hit."""
    player.send(player.text("x", 7, 5))
    resend(5)(player)


def fork(player: Player) -> None:
    """A prefix whose latents reach deeper than its state."""
    player.send(player.text("a", 7, 5))
    player.send(player.text("a", 5) + player.text("b", 1, 5), victim=True)


def fill_together(player: Player) -> None:
    """A prompt prefilled behind another one in the same batch, then hit alone."""
    prompt = player.text("a", 3, 5)
    player.submit(player.text("x", 1, 3))
    player.submit(prompt)
    player.run()
    player.send(prompt, victim=True)


def fill_alone(player: Player) -> None:
    """The same prompts one after the other."""
    prompt = player.text("a", 3, 5)
    player.send(player.text("x", 1, 3))
    player.send(prompt)
    player.send(prompt, victim=True)


def over_chunk(tail: int, blocks: int = 0) -> Callable[[Player], None]:
    """A prompt of one whole chunk, some blocks and some tokens."""

    def play(player: Player) -> None:
        chunk = player.options.chunk // player.block * player.block
        player.send(player.material("a", chunk + blocks * player.block + tail), victim=True)

    return play


def next_tenant(player: Player) -> None:
    """A new, short prompt in a slot that was used before."""
    player.send(player.text("x", 7, 5))
    player.send(player.text("a", 1, 5), victim=True)


def together(count: int, *, temperature: float = 0.0) -> Callable[[Player], None]:
    """Several prompts at once."""

    def play(player: Player) -> None:
        for index in range(count):
            player.submit(player.text(f"a{index}", 3, 5), victim=True, temperature=temperature)
        player.run()

    return play


def preempted(player: Player) -> None:
    """A sequence is preempted while it decodes, with nothing left in the cache."""
    player.submit(player.text("a", 3, 5), victim=True)
    player.run(6)
    player.engine.reset_cache(force=True)
    player.run()


def preempted_with_cache(player: Player) -> None:
    """A sequence is preempted while it decodes and finds its prefix in the cache."""
    player.submit(player.text("a", 3, 5), victim=True)
    player.run(6)
    player.engine.scheduler.preempt_all()
    player.run()


def aborted(player: Player) -> None:
    """A sequence is aborted and its slot taken at once; the newcomer's prompt is sent again."""
    doomed = player.submit(player.text("x", 5, 5), tokens=40)
    player.run(3)
    player.engine.abort(doomed)
    prompt = player.text("a", 3, 5)
    player.send(prompt, victim=True)
    player.send(prompt, victim=True)


def not_aborted(player: Player) -> None:
    """The same without an abort."""
    prompt = player.text("a", 3, 5)
    player.send(player.text("x", 5, 5), tokens=4)
    player.send(prompt, victim=True)
    player.send(prompt, victim=True)


def freed_slot(player: Player) -> None:
    """A slot freed by a short answer has a new owner in a batch of three."""
    player.submit(player.text("x", 2, 3), tokens=1)
    player.submit(player.text("y", 2, 3), tokens=60)
    player.submit(player.text("z", 2, 3), tokens=60)
    player.run(2)
    player.submit(player.text("a", 2, 3), victim=True)
    player.run()


def churn(player: Player) -> None:
    """Long answers beside short ones that end at different steps."""
    for index in range(2):
        player.submit(player.text(f"a{index}", 2, 3), victim=True)
    for index in range(8):
        player.submit(player.text(f"x{index}", 1, 3), tokens=2 + index % 3)
        player.run(2)
    player.run()


def long_then_other(player: Player) -> None:
    """A long prompt, then a short one in the same slot."""
    player.send(player.text("x", 7, 5))
    player.send(player.text("a", 2, 5), victim=True)


def answers_in_turn(count: int, *, temperature: float = 0.0) -> Callable[[Player], None]:
    """Several prompts, one after the other."""

    def play(player: Player) -> None:
        for index in range(count):
            player.send(player.text(f"a{index}", 3, 5), victim=True, temperature=temperature)

    return play


def beside_decode(player: Player) -> None:
    """A resend with one token left, beside a sequence that decodes."""
    prompt = player.text("a", 7, 1)
    player.send(prompt)
    player.submit(player.text("x", 2, 3), tokens=80)
    player.run(3)
    player.submit(prompt, victim=True)
    player.run()


def twins(player: Player) -> None:
    """A prompt made of the first block of one and the later blocks of another."""
    player.send(player.text("a", 7, 5))
    player.send(player.text("b", 7, 5))
    player.send(player.text("a", 1) + player.text("b", 7, 5)[player.block :], victim=True)


def two_salts(player: Player) -> None:
    """One prompt with two salts."""
    player.send(player.text("a", 7, 5), salt="one")
    player.send(player.text("a", 7, 5), salt="two", victim=True)


def like_tails(player: Player) -> None:
    """Two prompts that differ in the last tokens of one block."""
    first, other = player.text("a", 7, 5), player.text("b", 7, 5)
    player.send(first)
    changed = slice(2 * player.block - 3, 2 * player.block)
    second = [*first]
    second[changed] = other[changed]
    player.send(second, victim=True)


def evicted(player: Player) -> None:
    """A prompt returns after others took its memory, and once more at once."""
    prompt = player.text("a", 7, 5)
    player.send(prompt)
    for index in range(8):
        player.send(player.text(f"x{index}", 7, 5), tokens=1)
    player.send(prompt, victim=True)
    player.send(prompt, victim=True)
