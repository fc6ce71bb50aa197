"""Colours of series in pictures that are told apart by name only."""

COLOURS = ("#1f9d6c", "#c8663d", "#3f86c6", "#a06cd5", "#b08d2e", "#8391a5")
