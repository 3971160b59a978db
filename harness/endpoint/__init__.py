"""Everything that talks to a server: requests, raw answers, their meaning, discovery and counters."""
