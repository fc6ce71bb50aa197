"""What a deployment of this dialect adds to ``standalone/deployment``: its build, and loaders of what it builds."""
