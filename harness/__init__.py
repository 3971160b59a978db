"""ling-bench: measuring and judging a served hybrid linear-attention model."""
