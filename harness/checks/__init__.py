"""Checks: one question each, answered by a pure function of the history."""
