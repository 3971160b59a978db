"""Faults that can be planted in the embedded engine, each from outside the healthy code."""
