"""Stands for an exported script that finds everything as recorded."""
