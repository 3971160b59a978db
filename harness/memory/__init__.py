"""From a model's config.json to bytes: cache per token, state per sequence, sessions per node, parameters."""
