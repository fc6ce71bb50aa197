"""Runs scripts in forks of a process that has imported their libraries; a file of its own, for a foreign interpreter.

Standard input has settings in its first line (the modules to import, the memory of a fork) and a request in each
further line. Two lines answer it: the number of the fork, and the status that it ended with.
"""

import importlib
import json
import os
import resource
import runpy
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any


def main() -> None:
    """Serve requests until the pipe closes."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to the log
    settings = json.loads(sys.stdin.readline())
    for name in settings["modules"]:
        with suppress(Exception):  # the script that needs it says so
            importlib.import_module(name)
    for line in sys.stdin:
        fork = os.fork()
        if not fork:
            answers.close()  # the end of the server is the end of its answers
            _run({**settings, **json.loads(line)})
        print(fork, file=answers, flush=True)
        _, status = os.waitpid(fork, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _run(request: Any) -> None:
    """Run a script as the main program, and end."""
    status = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_DATA, (request["memory"], resource.getrlimit(resource.RLIMIT_DATA)[1]))
        for number, name in enumerate(("output", "errors"), start=1):
            os.dup2(os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        folder = Path(request["script"]).parent
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        runpy.run_path(request["script"], run_name="__main__")
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 -- the fork must not go on as a server
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
