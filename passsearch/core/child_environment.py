"""The environment variables of the processes that run another interpreter."""

import os

OWN_VARIABLES = frozenset({"PYTHONPATH", "PYTHONHOME"})
"""Variables that describe this process's interpreter; a child would import from the wrong environment."""


def child_environment() -> dict[str, str]:
    """Return this process's environment variables, without those that describe its own interpreter."""
    environment = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
    return {**environment, "PYTHONDONTWRITEBYTECODE": "1"}
