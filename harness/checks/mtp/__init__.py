"""The mtp check: how many drafts are accepted, where, and do the counters add up?"""
