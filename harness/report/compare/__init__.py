"""Runs side by side: ratios with intervals, where each side wins, and one page about it."""
