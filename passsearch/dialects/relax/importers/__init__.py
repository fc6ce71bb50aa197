"""One module per model format, with a function ``read``."""
