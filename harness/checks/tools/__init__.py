"""The tools check: are tools called when they have to be, with arguments that fit, in every form and from the cache?"""
