"""The tiers check: does what left the device come back from another tier, counted and right?"""
