"""The billing check: do answers cost what their counts and the prices say, cached tokens less than others?"""
