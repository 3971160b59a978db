"""Which sequences run, when, and on what memory; and the engine step that runs them."""
