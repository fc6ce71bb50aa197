"""Measurements and tests of the whole product that take long; ``python -m benchmarks.FOLDER.NAME`` runs one."""
