"""Cached tokens: does the server reuse prefixes, and does it count what it reuses truthfully?"""
