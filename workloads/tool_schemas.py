"""Tools whose arguments need what strict calling has to hold: enums, nested objects, lists, unicode, null."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.plan import Json

WEATHER, BOOK, NOTE = "get_weather", "book_room", "write_note"
CITIES = ("Tromsø", "São Paulo", "Kraków", "北京", "Zürich", "Αθήνα", "Lima", "Oslo")
UNITS = ("°C", "°F")

SCHEMAS: Mapping[str, Mapping[str, Json]] = {
    WEATHER: {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": list(UNITS)}},
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
    BOOK: {
        "type": "object",
        "properties": {
            "guest": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "member": {"type": "boolean"}},
                "required": ["name", "member"],
                "additionalProperties": False,
            },
            "nights": {"type": "integer"},
            "extras": {
                "type": "array",
                "items": {"type": "string", "enum": ["früh", "parking", "crib"]},
                "minItems": 1,
                "maxItems": 2,
            },
        },
        "required": ["guest", "nights", "extras"],
        "additionalProperties": False,
    },
    NOTE: {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "urgent": {"type": "boolean"},
            "due_day": {"type": ["integer", "null"]},
        },
        "required": ["title", "urgent", "due_day"],
        "additionalProperties": False,
    },
}
_DESCRIPTIONS: Mapping[str, str] = {
    WEATHER: "The weather in a city now.",
    BOOK: "Books a hotel room for a guest.",
    NOTE: "Writes a note down; due_day is null if it is not due on any day.",
}
TOOLS: tuple[Mapping[str, Json], ...] = tuple(
    {
        "type": "function",
        "function": {"name": name, "description": _DESCRIPTIONS[name], "strict": True, "parameters": schema},
    }
    for name, schema in SCHEMAS.items()
)


def named(name: str) -> Json:
    """The `tool_choice` that asks for one tool."""
    return {"type": "function", "function": {"name": name}}
