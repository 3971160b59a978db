"""The embedded engine: a small but real hybrid linear-attention model behind an OpenAI-compatible server."""
