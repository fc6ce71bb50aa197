"""The frameworks that networks come from, as the runtimes that say what a network's outputs should be."""
