"""Runs scripts of reproductions on parts of a network, each in a process of its own."""

import ast
import importlib.util
import logging
import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from passsearch.core import BuildOptions, Candidate, PassSpec, TimeLimit
from passsearch.dialects.reproduction import ONNX, ONNX_RUNTIME, SECOND, SLOW, ScriptForm, script_text
from passsearch.evaluate import Session
from passsearch.frontends import OnnxParts, Part
from passsearch.studies.reproduction_fault import Shown, read_shown
from passsearch.worker import ScriptServer

NETWORK, SCRIPT = "network.onnx", "reproduce.py"
OWN = "passsearch."
"""Begin of the modules with passes of this package."""

LATE_S = 60.0
"""Seconds beyond the time limit that the last script, which confirms the result, may take."""

LEAST_DEADLINE_S, TIMES_SLOWEST = 60.0, 5.0
"""Seconds that every script may take, and times as long as the slowest one that ended."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Probed:
    """What a script is run on.

    Attributes:
        nodes: Places of the nodes.
        original: Weights that keep their values.
        sides: Passes of each pipeline.
        sizes: Sizes that are replaced, each with what replaces it.
    """

    nodes: tuple[int, ...]
    original: frozenset[str]
    sides: tuple[tuple[PassSpec, ...], ...]
    sizes: tuple[tuple[int, int], ...] = ()


class Prober:
    """Writes and runs scripts.

    Attributes:
        runs: Number of scripts that were run.
        is_patient: True to wait for a script until the deadline, and not only for a multiple of the slowest one.
    """

    def __init__(
        self,
        session: Session,
        parts: OnnxParts,
        candidates: Sequence[Candidate],
        *,
        folder: Path,
        is_against_runtime: bool,
        time_limit: TimeLimit,
    ) -> None:
        self._session, self._parts, self._candidates, self._folder = session, parts, candidates, folder
        self._is_against_runtime, self.time_limit = is_against_runtime, time_limit
        self.runs, self.slowest_s, self.is_patient = 0, 0.0, True
        self._stack, self._servers = ExitStack(), dict[str, ScriptServer]()

    def __enter__(self) -> "Prober":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def builds(self) -> Sequence[BuildOptions]:
        """Build options of each pipeline."""
        return [candidate.build for candidate in self._candidates]

    def form(self, kind: str, *, is_alone: bool) -> ScriptForm:
        """Return the form of a script; ``is_alone`` builds with TVM alone."""
        other = SECOND if len(self._candidates) > 1 else ONNX
        if self._is_against_runtime:
            other = ONNX_RUNTIME if kind == SLOW else ONNX
        return ScriptForm(kind, other, self._session.dialect.name if is_alone else "")

    def can_build_alone(self) -> bool:
        """Return whether TVM alone can build the pipelines: all passes and the build are its own."""
        factories = [self._session.factories[step.name] for each in self._candidates for step in each.pipeline.passes]
        levels = (0, self._session.dialect.baseline.build.opt_level)
        is_own = any(factory.startswith(OWN) for factory in factories)
        return not is_own and all(build.opt_level in levels and not build.config for build in self.builds)

    def run(self, probed: Probed, form: ScriptForm, *, folder: Path | None = None, seen: str = "") -> Shown:
        """Write the network and the script to a folder, by default one for trials, and run the script."""
        is_last = folder is not None
        folder = folder or self._folder / "probe"
        if not self.write(probed, form, folder=folder, seen=seen).fits:
            return Shown(error="the sizes do not fit together")
        begin_s, left_s = self.time_limit.clock_s(), self.time_limit.left_s() + (LATE_S if is_last else 0)
        usual_s = math.inf if self.is_patient else max(LEAST_DEADLINE_S, TIMES_SLOWEST * self.slowest_s)
        deadline_s = max(1.0, min(self._session.limits.deadline_s, usual_s, left_s))
        shown = read_shown(self._server(form, folder / SCRIPT).run(folder / SCRIPT, deadline_s=deadline_s))
        if shown.is_late and deadline_s >= left_s:
            shown = Shown(shown.step, error="the time limit ended before the script")
        self.runs += 1
        seconds = self.time_limit.clock_s() - begin_s
        if not shown.is_late:
            self.slowest_s = max(self.slowest_s, seconds)
        _log.info("%d nodes: %s (%.1f s)", len(probed.nodes), shown.text, seconds)
        return shown

    def _server(self, form: ScriptForm, script: Path) -> ScriptServer:
        """Return the process that scripts of this form are run by."""
        if form.dialect not in self._servers:
            bridge = [] if form.dialect else [self._session.dialect.bridge.partition(":")[0]]
            self._servers[form.dialect] = self._stack.enter_context(
                ScriptServer(
                    self._session.toolchain.python,
                    modules=[*imported_modules(script.read_text()), *bridge],
                    threads=self._session.threads,
                    paths=[self._packages(form)],
                    memory_bytes=self._session.limits.memory_bytes,
                )
            )
        return self._servers[form.dialect]

    def write(self, probed: Probed, form: ScriptForm, *, folder: Path, seen: str = "") -> Part:
        """Write the network, the script and the user's own passes."""
        folder.mkdir(parents=True, exist_ok=True)
        part = self.part(probed)
        part.save(folder / NETWORK)
        (folder / SCRIPT).write_text(script_text(form, self._facts(probed), seen=seen))
        for file in self.own_modules(probed):
            shutil.copyfile(file, folder / file.name)
        return part

    def part(self, probed: Probed) -> Part:
        """Return the network."""
        return self._parts.part(probed.nodes, original=probed.original, sizes=dict(probed.sizes))

    def own_modules(self, probed: Probed) -> list[Path]:
        """Return the files of the user's own passes that a script needs beside it."""
        factories = {self._session.factories[step.name] for side in probed.sides for step in side}
        names = {factory.partition(":")[0].partition(".")[0] for factory in factories}
        files = (Path(path) / f"{name}.py" for path in self._session.paths for name in names)
        return sorted(file for file in files if file.is_file())

    def _facts(self, probed: Probed) -> Mapping[str, Any]:
        sides = [
            {
                "passes": [[str(step), self._session.factories[step.name], step.argument_values] for step in side],
                "build": build.to_json(),
            }
            for side, build in zip(probed.sides, self.builds, strict=False)
        ]
        dialect = self._session.dialect
        return {
            "target": self._session.target,
            "bridge": dialect.bridge,
            "threads": self._session.threads,
            "sides": sides,
        }

    def _packages(self, form: ScriptForm) -> Path:
        """Return a folder with what a script imports that the toolchain's interpreter does not have."""
        wanted: list[str] = [] if form.dialect else ["passsearch"]
        # Compiled for this interpreter's version of Python.
        wanted += ["onnxruntime"] if self._shares_python else []
        folder = self._folder / f"packages-{len(wanted)}-{form.dialect}"
        folder.mkdir(exist_ok=True)
        for name in wanted:
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.submodule_search_locations and not (folder / name).exists():
                (folder / name).symlink_to(next(iter(spec.submodule_search_locations)))
        return folder

    @cached_property
    def _shares_python(self) -> bool:
        return bool(list((self._session.toolchain.python.parent.parent / "lib").glob(f"python{_python()}")))


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def random_weights(parts: OnnxParts, *, keeps_numbers: bool) -> frozenset[str]:
    """Return the weights that keep their values: those that are structure and, if asked, single numbers."""
    numbers = [name for name, weight in parts.weights.items() if math.prod(weight.dims) == 1] if keeps_numbers else []
    return frozenset({*parts.reasons, *numbers})


def imported_modules(script: str) -> list[str]:
    """Return the modules that a script imports, but for ONNX Runtime, whose threads do not survive a fork."""
    names = []
    for node in ast.walk(ast.parse(script)):
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module]
    return [name for name in dict.fromkeys(names) if not name.startswith("onnxruntime")]
