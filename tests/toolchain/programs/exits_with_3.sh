#!/bin/sh
# A program that is no Python interpreter.
exit 3
