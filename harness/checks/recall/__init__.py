"""The recall check: what a long text says comes back, and from the cache as well as without it."""
