"""One file per family of models: how its config spells its layers, and what its layers weigh."""
