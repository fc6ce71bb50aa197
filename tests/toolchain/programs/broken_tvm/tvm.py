"""Stands for a TVM whose shared library does not load."""

raise ImportError("libtvm.so: undefined symbol")
