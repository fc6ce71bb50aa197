#!/bin/sh
# A Python whose TVM does not import; PYTHON_UNDER_TEST is the path of a real interpreter.
PYTHONPATH="$(dirname "$0")/broken_tvm" exec "$PYTHON_UNDER_TEST" "$@"
