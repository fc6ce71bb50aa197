#!/bin/sh
# A Python without packages; PYTHON_UNDER_TEST is the path of a real interpreter.
exec "$PYTHON_UNDER_TEST" -S -E "$@"
