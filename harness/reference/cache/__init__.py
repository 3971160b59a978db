"""The prefix cache: block hashes, latents and states under a byte budget, policies, a host tier."""
