"""Statistics that checks share: pure functions over numbers and log-probability tables."""
