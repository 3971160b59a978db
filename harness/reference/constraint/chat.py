"""Constraints of chat requests: tools, response formats, reasoning."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.reference.constraint.automaton import Automaton, Chain, Either, Literal, Node
from harness.reference.constraint.base import Constraint
from harness.reference.constraint.schema import any_object, node_of
from harness.reference.constraint.tokens import Formed, Free, Grammar, Thinking, Until, Vocabulary, Without
from harness.reference.tokenizer import CONTROL_TOKENS, SPECIAL_TOKENS, Tokenizer

GRAMMARS_KEPT = 64
CALL_START, CALL_END = "<tool_call>", "</tool_call>"
THINK_START, THINK_END = "<think>", "</think>"
CALL_HEAD = '\n{"name": '
CALL_MIDDLE = ', "arguments": '
CALL_TAIL = "}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function the answer may call, with the schema of its arguments."""

    name: str
    parameters: Mapping[str, object]


class Forms:
    """Builds the constraints of one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        marks = [tokenizer.id_of(token) for token in SPECIAL_TOKENS if token not in CONTROL_TOKENS]
        self.vocabulary = Vocabulary(
            spelled=[tokenizer.token_bytes(token) for token in range(tokenizer.vocab_size)],
            marks=marks,
            ends=sorted(tokenizer.eos_ids),
        )
        self._grammars: dict[Node, Grammar] = {}
        self._call_start = tokenizer.id_of(CALL_START)
        self.think_end = tokenizer.id_of(THINK_END)
        self._unthinking = ~self.vocabulary.only((tokenizer.id_of(THINK_START), self.think_end))

    def call(self, tools: Sequence[Tool]) -> Constraint:
        """Exactly one call of one of the tools.

        Raises:
            SchemaError: a tool's schema cannot be honoured.
        """
        return self._formed(Chain((Literal(CALL_START.encode()), self._calls(tools))))

    def call_if_begun(self, tools: Sequence[Tool]) -> Constraint:
        """Free text; a call that is begun is a valid one."""
        return Until(token=self._call_start, then=self._formed(self._calls(tools)))

    def json(self, schema: Mapping[str, object] | None) -> Constraint:
        """JSON that fits a schema, or any object when there is none.

        Raises:
            SchemaError: the schema cannot be honoured.
        """
        return self._formed(any_object() if schema is None else node_of(schema))

    def thinking(self, tokens: int, then: Constraint | None) -> Constraint:
        """A block of reasoning of at most so many tokens, then what would hold without it."""
        following = then if then is not None else Free()
        return Thinking(vocabulary=self.vocabulary, left=tokens, end=self.think_end, then=following)

    def unthinking(self, then: Constraint | None) -> Constraint:
        """What would hold, without any mark of reasoning."""
        return Without(kept=self._unthinking, then=then if then is not None else Free())

    def _calls(self, tools: Sequence[Tool]) -> Node:
        return Chain((Either(tuple(map(_call, tools))), Literal(CALL_END.encode())))

    def _formed(self, node: Node) -> Constraint:
        if len(self._grammars) >= GRAMMARS_KEPT:
            self._grammars.clear()
        grammar = self._grammars.get(node) or Grammar(Automaton(node), self.vocabulary)
        self._grammars[node] = grammar
        return Formed(grammar=grammar, states=grammar.automaton.start)


def _call(tool: Tool) -> Node:
    head = CALL_HEAD + json.dumps(tool.name) + CALL_MIDDLE
    return Chain((Literal(head.encode()), node_of({"type": "object", **tool.parameters}), Literal(CALL_TAIL.encode())))
