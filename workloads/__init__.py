"""What to ask a server, as pure and seeded plans."""
