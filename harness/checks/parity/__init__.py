"""The parity check: do two servers answer alike, cold and from their caches?"""
