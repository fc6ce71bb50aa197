"""Print as JSON which Python runs this file, and on which platform.

The file is run by path in interpreters of any Python 3 version and imports the standard library only.
"""

import importlib.util
import json
import platform
import sys


def main() -> None:
    """Print one JSON object with the fields of ``HostPython``."""
    fields = {
        "python": sys.executable,
        "version": list(sys.version_info[:3]),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "machine": platform.machine().lower().replace("amd64", "x86_64"),
        "libc": platform.libc_ver()[0],
        # Debian and Ubuntu ship Python without these two modules.
        "has_venv": all(map(importlib.util.find_spec, ("venv", "ensurepip"))),
    }
    sys.stdout.write(json.dumps(fields) + "\n")


if __name__ == "__main__":
    main()
