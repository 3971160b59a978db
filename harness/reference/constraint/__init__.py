"""Holding an answer to a form: JSON schemas, tool calls, a block of reasoning first."""
