"""Passes and deployments of Relay."""
