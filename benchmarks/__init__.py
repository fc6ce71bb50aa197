"""Measurements and tests of the whole product that take long; ``python -m benchmarks.FOLDER.NAME`` runs one.

``imports``: is the network that is compiled the one that was given? ``faults``: kills, full disks, hostile passes,
tampering, large weights, mistakes of users. ``measurement``: do intervals hold, and does a busy machine lead to false
rows? ``speed``: TVM beside other engines, searches of the zoo, deployments under load. ``search``: short searches,
sequences, strategies, and what passes are worth. ``gpu``: a session on a GPU machine. ``results`` has their answers.
"""
