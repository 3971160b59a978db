"""Routes beside those that generate text, one dialect a file."""
