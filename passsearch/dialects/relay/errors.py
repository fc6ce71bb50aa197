"""Exceptions that TVM's importers of Relay raise for a network that they refuse; they have none of their own."""

import tvm

IMPORT_ERRORS = (RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError, tvm.TVMError)
