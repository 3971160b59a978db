"""The overload check: does a server refuse clearly, lose nothing, and come back as it was?"""
