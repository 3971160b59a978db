"""The requests of the eviction plan: each prompt the way an arm wants it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from workloads.eviction_documents import QUESTION, document_of_tokens
from workloads.eviction_shape import ANSWER_TOKENS, LEAD_TOKENS, EvictionOptions, Shape, Subject
from workloads.material import Material, Segment
from workloads.phases import Past
from workloads.plan import Ask, Json, Prompt, TextPrompt, TokenPrompt

SHORT_TOKENS, SHORTEST_TOKENS = 12, 4
OTHER_TOKENS = 24
# By so many tokens is what leads a batch shorter than usual: no block and no chunk ends where it does.
UNEVEN_TOKENS = 7


class Requests:
    """Makes single requests; what they are for is the plan's business."""

    def __init__(self, material: Material, options: EvictionOptions) -> None:
        self._material = material
        self._options = options

    @property
    def can_be_cold(self) -> bool:
        """Whether an answer can be had without the cache."""
        return self._options.salt or self._options.bypass

    def judged(self, subject: Subject, arm: str, number: int, *, cold: bool = False) -> Ask:
        """The whole prompt."""
        return Ask(
            key=f"{subject.name}/{arm}/{number}",
            prompt=self._whole(subject),
            max_tokens=subject.answer_tokens,
            session=subject.name,
            arm=arm,
            expected_prompt_tokens=subject.tokens,
            parameters={**self._options.fields, **(self._cold(f"{subject.name}/{arm}/{number}") if cold else {})},
            labels=subject.labels,
        )

    def lead(self, subject: Subject) -> Ask:
        """The prompt but for its last nine tokens, cold: the model writes eight of them itself.

        So the same request brings their block back by decoding later.
        """
        return self._beginning(subject, "lead", self._ids(subject.name, self._lead_end(subject)), LEAD_TOKENS)

    def stepped(self, subject: Subject, past: Past) -> Ask:
        """The prompt but for its last token, cold: a decoding step takes that token in, as a hit's resume does."""
        ids = self._before_last(subject, past)
        ask = self._beginning(subject, "stepped", ids, 1 + subject.answer_tokens)
        return replace(ask, parameters={**self._options.fields, **ask.parameters})

    def decode_fill(self, subject: Subject) -> Ask:
        """As `lead`, but into the cache, and on behind the end of the block."""
        ids = self._ids(subject.name, self._lead_end(subject))
        ask = self._beginning(subject, "decode-fill", ids, LEAD_TOKENS + 4)
        return replace(ask, parameters={})

    def written(self, subject: Subject, past: Past) -> Subject:
        """The subject with the last tokens that the model wrote; a plain one if the server did not tell them."""
        first = _answer_ids(past, f"{subject.name}/stepped/0")
        if not subject.stepped or not first:
            return replace(subject, stepped=False, decoded=False)
        lead = self._lead_ids(subject, past)
        labels = {**subject.labels, "stepped": True}
        return replace(subject, decoded=bool(lead), ending=(*lead, first[0]), labels=labels)

    def short(self, subject: Subject, shape: Shape, number: int) -> Iterator[tuple[Ask]]:
        """A few tokens that no cache keeps; nothing where the server's own tokens fill a block."""
        tokens = min(SHORT_TOKENS, shape.rule.step - 1 - shape.overhead)
        if tokens >= SHORTEST_TOKENS:
            short = Subject(
                name=f"{subject.name}/short",
                tokens=tokens,
                far_tokens=None,
                answer_tokens=ANSWER_TOKENS,
                labels={"round": self._options.round_index, "needle": False},
            )
            yield (self.judged(short, "short", number),)

    def far(self, subject: Subject, sightings: int) -> Iterator[tuple[Ask]]:
        """Cache a prefix alone, so that the whole prompt resumes there."""
        if subject.far_tokens is None:
            return
        for sighting in range(sightings):
            yield (self.plain(subject.name, "fill", subject.far_tokens, output_tokens=1, sighting=sighting),)
        yield (self.judged(subject, "far", 0),)

    def beginning(self, subject: Subject, key: str) -> Ask:
        """What a far resume skips of a prompt, so that it is the last of it that is used."""
        assert subject.far_tokens is not None
        ask = self.plain(subject.name, "kept", subject.far_tokens, output_tokens=1, sighting=0)
        return replace(ask, key=f"{subject.name}/{key}")

    def other_session(self, subject: Subject, number: int, *, further_tokens: int = 0) -> Ask:
        """The prompt's text up to its last tokens, with another ending, which goes on for `further_tokens` more."""
        tail = self._options.name + f"/other of {subject.name}"
        kept, ending = max(1, subject.tokens - int(str(subject.labels["tail"]))), OTHER_TOKENS + further_tokens
        return Ask(
            key=f"{subject.name}/other/{number}",
            prompt=self._other_prompt(subject, kept, tail, ending),
            max_tokens=1,
            session=subject.name,
            arm="fill",
            expected_prompt_tokens=kept + ending,
            labels=subject.labels,
        )

    def stranger(self, name: str, arm: str, *, uneven: bool = False) -> Ask:
        """A prompt that nobody asks again; `uneven` ones end at no multiple of anything."""
        tokens = self._options.longest_tokens - (UNEVEN_TOKENS if uneven else 0)
        prompt = self._material.prompt([Segment(name=f"{self._options.name}/{name}", tokens=tokens)])
        return Ask(
            key=f"{self._options.name}/{name}", prompt=prompt, max_tokens=1, arm=arm, expected_prompt_tokens=tokens
        )

    def plain(self, name: str, arm: str, tokens: int, *, output_tokens: int, sighting: int) -> Ask:
        """So many tokens of a prompt, judged by nobody."""
        return Ask(
            key=f"{name}/{arm}/{sighting}",
            prompt=self._prompt(name, tokens),
            max_tokens=output_tokens,
            session=name,
            arm=arm,
            expected_prompt_tokens=tokens,
        )

    def _beginning(self, subject: Subject, arm: str, ids: tuple[int, ...], output_tokens: int) -> Ask:
        """The first tokens of a prompt, computed from nothing, with the ids of what the model writes after them."""
        name = f"{subject.name}/{arm}/0"
        return Ask(
            key=name,
            prompt=TokenPrompt(token_ids=ids),
            max_tokens=output_tokens,
            session=subject.name,
            arm=arm,
            expected_prompt_tokens=len(ids),
            parameters={**self._cold(name), "return_token_ids": True},
            labels=subject.labels,
        )

    def _lead_end(self, subject: Subject) -> int:
        return max(1, subject.tokens - 1 - LEAD_TOKENS)

    def _lead_ids(self, subject: Subject, past: Past) -> tuple[int, ...]:
        """The eight tokens that the model wrote before the last; none if it was not asked or did not tell them all."""
        found = _answer_ids(past, f"{subject.name}/lead/0")
        return found if subject.decoded and len(found) == LEAD_TOKENS else ()

    def _before_last(self, subject: Subject, past: Past) -> tuple[int, ...]:
        lead = self._lead_ids(subject, past)
        return (*self._ids(subject.name, subject.tokens - 1 - len(lead)), *lead)

    def _cold(self, name: str) -> dict[str, Json]:
        """Body fields that keep a request from the cache; none where nothing does."""
        if self._options.salt:
            return {"cache_salt": self._material.salt(name)}
        return {"cache_prompt": False} if self._options.bypass else {}

    def _ids(self, name: str, tokens: int) -> tuple[int, ...]:
        return self._material.ids(name, tokens)

    def _other_prompt(self, subject: Subject, kept: int, tail: str, ending_tokens: int) -> Prompt:
        if self._material.exact:
            own = (*self._ids(subject.name, subject.tokens - len(subject.ending)), *subject.ending)[:kept]
            return TokenPrompt(token_ids=(*own, *self._ids(tail, ending_tokens)))
        whole, ending = self._prompt(subject.name, kept), self._prompt(tail, ending_tokens)
        assert isinstance(whole, TextPrompt)
        assert isinstance(ending, TextPrompt)
        return TextPrompt(text=f"{whole.text}\n\n{ending.text}")

    def _whole(self, subject: Subject) -> Prompt:
        if subject.ending:
            ids = self._ids(subject.name, subject.tokens - len(subject.ending))
            return TokenPrompt(token_ids=(*ids, *subject.ending))
        return self._prompt(subject.name, subject.tokens, ending=QUESTION if subject.labels["needle"] else "")

    def _prompt(self, name: str, tokens: int, *, ending: str = "") -> Prompt:
        if self._material.exact:
            return self._material.prompt([Segment(name=name, tokens=tokens)])
        text = document_of_tokens(self._options.seed, name, tokens=tokens, count=self._material.count, ending=ending)
        return TextPrompt(text=text)


def _answer_ids(past: Past, key: str) -> tuple[int, ...]:
    """The ids of an answer; none if there was none or the server did not tell."""
    seen = past.seen.get(key)
    return () if seen is None or seen.token_ids is None else seen.token_ids
