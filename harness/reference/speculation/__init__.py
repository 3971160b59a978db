"""Multi-token prediction: drafting, verifying, rolling back, counting."""
