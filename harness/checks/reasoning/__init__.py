"""The reasoning check: is thinking switched, told apart from the answer, and the same in streams?"""
