"""Starts a module of this package in an interpreter that does not have the package."""

from collections.abc import Sequence
from pathlib import Path

# The worker's interpreter has the compiler but not this package. Putting this package's parent folder on its path
# would expose everything installed beside it, so only the package itself is made importable.
_BOOTSTRAP = """
import sys
# Drop the empty entry of `python -c` before anything else is imported: it stands for the working folder, whose files
# could hide modules. The option -I would also drop the user's own packages, which may be where the compiler is.
sys.path[:] = [entry for entry in sys.path if entry]
import importlib.util, runpy
# Describe the package by the path of its own file, so that its parent folder never gets on the import path.
spec = importlib.util.spec_from_file_location("passsearch", {init!r}, submodule_search_locations=[{folder!r}])
# Create the module without running it.
package = importlib.util.module_from_spec(spec)
# Register it before it runs, as `import passsearch` does: submodules look their parent up here.
sys.modules["passsearch"] = package
# Run its `__init__.py`.
spec.loader.exec_module(package)
# The folders of the user's own passes.
sys.path += {paths!r}
# Run the server as the main program; it returns when standard input closes.
runpy.run_module({module!r}, run_name="__main__")
"""


def bootstrap_code(module: str, *, paths: Sequence[str] = ()) -> str:
    """Return the program for ``python -c`` that runs a module of this package as the main program.

    Args:
        module: Full name of the module.
        paths: Further import paths.
    """
    folder = Path(__file__).parents[1]
    return _BOOTSTRAP.format(init=str(folder / "__init__.py"), folder=str(folder), paths=list(paths), module=module)
