"""Weights of the embedded models: how they are made, loaded and exported."""
