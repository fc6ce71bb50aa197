"""The choice of the C compiler that links kernels into a library: a deployment chooses the one that the search did."""

import os
import shutil

FALLBACKS = ("c++", "g++", "cc", "gcc", "clang")
"""Programs to try in order when ``CC`` names none that exists."""


def find_linker() -> str:
    """Return the path of the C compiler that links kernels.

    Raises:
        FileNotFoundError: This machine has no C compiler; the message says what to install.
    """
    # TVM runs the linker as one program without arguments, so of `ccache gcc -m64` only `gcc` can be passed on.
    words = [word for word in os.environ.get("CC", "").split() if not word.startswith("-")]
    for name in (*words[-1:], *FALLBACKS):
        path = shutil.which(name)
        if path is not None:
            return path
    raise FileNotFoundError("No C compiler found to link kernels; install gcc or clang, or name one in CC.")
