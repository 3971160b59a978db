"""Are answers still right after the cache was hit, evicted, and filled again?"""
