"""Open every file of a corpus by every command under an audit hook; print as JSON what was tried and what happened.

Arguments: the folder to work in, the dialect of the toolchain, and n for every n-th network. The hook cannot be
removed, hence a process of its own.
"""

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from foreign_runs import MODULE, foreign_run
from hostile_files import hostile_networks

from passsearch import cli

FORBIDDEN = (
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "pty.spawn", "subprocess.Popen"),
    *("pickle.find_class", "socket.connect"),
)
"""Audit events of code that was run, and of connections."""

RUN_CODE = 2
"""Exit status for a mistake in the command or its files."""

EACH = 10
"""Of so many networks one is opened by every command: all commands open networks by the same function."""

FRAMEWORKS = ("tensorflow", "keras", "torch", "mxnet", "transformers", "tvm")


class Watch:
    """An audit hook that collects what no file may cause."""

    def __init__(self, folder: Path, corpus: Path) -> None:
        self.found: list[str] = []
        self._folder, self._corpus, self._on = str(folder), str(corpus), True
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._on:
            return
        self._on = False  # looking at the arguments causes events too
        with contextlib.suppress(ValueError):
            if self._is_forbidden(event, arguments):
                self.found.append(f"{event} {arguments}"[:200])
        self._on = True

    def _is_forbidden(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event in FORBIDDEN:
            return True
        first = str(arguments[0]) if arguments else ""
        if event == "import":
            return first == MODULE
        if event == "ctypes.dlopen":
            return first.startswith(self._corpus)
        if event == "exec":
            return str(getattr(arguments[0], "co_filename", "")).startswith(self._corpus)
        return event == "open" and _writes(*arguments) and not first.startswith((self._folder, "/dev/null"))


def _writes(path: object, mode: str | None, flags: int) -> bool:
    # A descriptor was opened before.
    return not isinstance(path, int) and bool(set(mode or "") & set("wax+") or flags & (os.O_WRONLY | os.O_RDWR))


def commands(corpus: Path, folder: Path, dialect: str, every: int) -> Iterator[list[str]]:
    """Yield one command on every n-th network, every command on some of them and on every other file."""
    (corpus / "networks").mkdir(parents=True)
    networks = islice(hostile_networks(corpus / "networks"), 0, None, every)
    for place, network in enumerate(map(str, networks)):
        yield ["analyze", network]
        if place % EACH:
            continue
        yield ["tune", network, "--out", str(folder / "out" / Path(network).name)]
        yield ["explore", network]
        yield ["compare", network, "--pipeline", "FuseOps"]
        yield ["audit", "--aa", network]
    factories = ["os:system", f"{MODULE}:Mine", "passsearch.dialects.shared:load_function"]
    for number, factory in enumerate(factories):
        for name in ("Mine", "FuseOps"):
            run = str(
                foreign_run(
                    corpus / f"run{number}{name}",
                    folder / "canary",
                    dialect=dialect,
                    toolchain="any",
                    factory=factory,
                    name=name,
                )
            )
            yield ["audit", run]
            yield ["export", run, "--to", str(folder / "deploy")]
            yield ["export", run, "--to", str(folder / "deploy"), "--replay"]
            yield ["tune", "zoo:resnet_tiny", "--out", run]
            yield ["explore", "zoo:resnet_tiny", "--check", f"{run}/result.json"]
            yield ["catalog", "learn", f"{run}/result.json"]
            yield ["compare", "zoo:resnet_tiny", "--pipelines", f"{run}/result.json"]
    catalog = corpus / "python.yaml"
    catalog.write_text("passes: !!python/object/apply:os.system ['true']\n")
    for words in (["catalog", "list"], ["catalog", "check"], ["analyze", "zoo:resnet_tiny"]):
        yield [*words, "--catalog", str(catalog)]


def main() -> None:
    """Run all commands and print the counts."""
    folder, dialect = Path(sys.argv[1]), sys.argv[2]
    corpus = folder / "corpus"
    words = list(commands(corpus, folder, dialect, int(sys.argv[3])))
    watch = Watch(folder, corpus)
    others, long = [], []
    for command in words:
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
            status = cli.main(command)
        others += [command] if status != RUN_CODE else []
        long += [printed.getvalue()] if len(printed.getvalue().splitlines()) > 1 else []
    imported = sorted(set(FRAMEWORKS) & sys.modules.keys())
    result = {"tried": len(words), "refused": len(words) - len(others), "others": others, "found": watch.found}
    result |= {"imported": imported, "long": long}
    sys.stdout.write(json.dumps({**result, "canary": (folder / "canary").exists()}) + "\n")


if __name__ == "__main__":
    main()
