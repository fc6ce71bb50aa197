"""Measurements and tests of the whole product that take long; ``python -m benchmarks.FOLDER.NAME`` runs one.

``imports``: is the network that is compiled the one that was given? ``faults``: kills, full disks, hostile passes,
random pipelines, planted regressions. ``measurement``: bits, power and alarms. ``speed``: TVM beside other engines.
``search``: the corpus of recommendations, short searches, strategies, pairs of passes. ``gpu``: a session on a GPU
machine. ``results`` has their answers, ``DELETED.md`` the scripts that nothing needs any more.
"""
