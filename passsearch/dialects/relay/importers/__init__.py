"""One module per model format, with a function ``read``. A process that imports one format loads only its module."""
