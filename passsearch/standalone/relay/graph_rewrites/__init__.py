"""Passes that rewrite the graph. Each file or package is one unit: an export copies it alone."""
