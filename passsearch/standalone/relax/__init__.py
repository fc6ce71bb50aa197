"""Passes and deployments of Relax."""
