"""Exceptions that TVM 0.27 raises."""

# TVM's own errors are kinds of RuntimeError; its passes and importers in Python raise the others.
COMPILER_ERRORS = (RuntimeError, TypeError, ValueError, AttributeError, KeyError, IndexError, AssertionError)
