"""What a chat request says about the form of its answer: tools, response format, reasoning."""

from __future__ import annotations

from dataclasses import dataclass

from harness.reference.constraint.base import Constraint
from harness.reference.constraint.chat import Forms, Tool
from harness.reference.constraint.schema import SchemaError
from harness.reference.server import fields
from harness.reference.server.errors import RequestError
from harness.reference.server.fields import Json
from harness.reference.server.rules import Rules

THINKING_TOKENS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatForm:
    """The form of an answer; ``calls_tools`` says that tool calls are to be told apart from content."""

    constraint: Constraint
    thinking: bool
    calls_tools: bool


def chat_form(body: Json, forms: Forms, rules: Rules) -> ChatForm:
    """The form a chat body asks for.

    Raises:
        RequestError: a malformed tool, choice or format, or a schema that cannot be honoured.
    """
    tools = tools_of(body)
    try:
        called = _tool_constraint(body, tools, forms, rules)
        constraint = called if called is not None else _format_constraint(body, forms)
    except SchemaError as error:
        raise RequestError(f"Grammar error: {error}") from error
    thinking, constraint = thinks(body), forms.unthinking(constraint)
    if thinking:
        budget = fields.integer(body, "thinking_token_budget", THINKING_TOKENS, least=0)
        constraint = forms.thinking(budget, constraint)
    return ChatForm(constraint=constraint, thinking=thinking, calls_tools=called is not None)


def thinks(body: Json) -> bool:
    """Whether the chat template is told to let the model reason first."""
    return fields.boolean(fields.mapping(body, "chat_template_kwargs"), "enable_thinking", False)


def tools_of(body: Json) -> list[Tool]:
    """The functions a chat body offers."""
    tools = []
    for index, tool in enumerate(fields.objects(body, "tools")):
        function = fields.mapping(tool, "function")
        name = function.get("name")
        if not isinstance(name, str):
            raise RequestError(
                f"1 validation error:\n  {{'type': 'missing', 'loc': 'body.tools.{index}.function.name', "
                "'msg': 'Field required'}",
                kind="Bad Request",
                param=f"body.tools.{index}.function.name",
            )
        tools.append(Tool(name=name, parameters=fields.mapping(function, "parameters")))
    return tools


def _tool_constraint(body: Json, tools: list[Tool], forms: Forms, rules: Rules) -> Constraint | None:
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and not rules.named_tools:
        choice = None
    if isinstance(choice, dict):
        name = fields.string(fields.mapping(choice, "function"), "name", "")
        named = [tool for tool in tools if tool.name == name]
        if named:
            return forms.call(named)
        raise RequestError((rules.unknown_tool or "").format(name=name), param="tool_choice")
    if choice not in (None, "auto", "none", "required"):
        raise RequestError(f"Invalid tool_choice: {choice}", param="tool_choice")
    if choice == "required" and not tools:
        raise RequestError("Tools cannot be empty if tool choice is set to required.", param="tools")
    if not tools or choice == "none":
        return None
    return forms.call(tools) if choice == "required" else forms.call_if_begun(tools)


def _format_constraint(body: Json, forms: Forms) -> Constraint | None:
    wanted = fields.mapping(body, "response_format")
    kind = fields.string(wanted, "type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return forms.json(None)
    if kind == "json_schema":
        return forms.json(fields.mapping(fields.mapping(wanted, "json_schema"), "schema"))
    raise RequestError(f"Unsupported response_format: {kind}", param="response_format")
