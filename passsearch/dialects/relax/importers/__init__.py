"""One module for every format TVM imports, each with ``read``."""
