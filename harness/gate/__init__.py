"""The gate: what a profile demands, and what it makes of verdicts and figures; pure, it reads and writes nothing."""
