"""The context check: how long a context is served, what happens beyond it, and whether all of it is read."""
