"""One module for every format TVM imports, each with ``read``; loaded in a process that imports that format only."""
