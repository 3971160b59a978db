"""What each engine calls things, one dialect a file."""
