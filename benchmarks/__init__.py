"""Measurements and tests of the whole product that take long, by purpose; ``python -m benchmarks.FOLDER.NAME`` runs one."""
