"""The commands that make a run again and go on from it."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from passsearch.core import LEAST_GAIN, USUAL_REPETITIONS, WEIGHTS
from passsearch.report.run_record import RunRecord
from passsearch.results import Model, RunResult

DEFAULTS: Mapping[str, Any] = {
    "seed": 0,
    "repetitions": USUAL_REPETITIONS,
    "keep_throughput": 0.98,
    "least_gain": LEAST_GAIN,
    "sampler": "auto",
}
"""Settings that a command leaves out if they have these values."""

OPTIONS = {
    "toolchain": "--toolchain",
    "target": "--target",
    "objectives": "--objective",
    "trials": "--trials",
    "timeout_s": "--timeout",
    "batch": "--batch",
    "seed": "--seed",
    "repetitions": "--confirm",
    "keep_throughput": "--keep-throughput",
    "least_gain": "--least-gain",
    "tolerance": "--tolerance",
    "passes": "--passes",
    "additional": "--additional",
    "sampler": "--sampler",
}
"""Options of ``passsearch tune`` by setting of a run."""


def tune_command(record: RunRecord) -> str:
    """Return the command of a run, as its folder recorded it.

    ``FILE`` stands for catalogs, samples and labels, whose names the folder lacks.
    """
    words = ["passsearch", "tune", _model(record.result.model)]
    settings = {**_from_result(record.result), **record.settings}
    for name, option in OPTIONS.items():
        value = settings.get(name)
        if value not in (None, [], "", DEFAULTS.get(name)):
            words += [option, _word(value)]
    words += [word for name, kind in _inputs(settings) for word in ("--input", f"{name}:{kind}")]
    words += _calls(record.result.model)
    words += ["--samples", "FILE"] if settings.get("samples") else []
    if (budget := settings.get("budget")) is not None:
        words += ["--precision", settings.get("precision", WEIGHTS), "--budget", _word(budget)]
    elif "precision" in settings:
        words += ["--precision", _word(settings["precision"])]
    words += ["--labels", "FILE"] if settings.get("labels") else []
    words += ["--catalog", "FILE"] if settings.get("catalogs") else []
    return " ".join(shlex.quote(word) for word in (*words, "--out", "RUN"))


def _model(model: Model) -> str:
    source, batch = model.source or "MODEL", model.batch
    # A built-in network is made for a batch, so the file has no size to set.
    is_batched = source.startswith("zoo:") and "@" not in source and batch not in (None, 1)
    return f"{source}@{batch}" if is_batched else source


def follow_up_commands(record: RunRecord) -> str:
    """Return the commands that check and export the winner, one in a line."""
    folder = shlex.quote(str(record.folder or "RUN"))
    return "\n".join(
        (
            f"passsearch audit {folder}",
            f"passsearch ablate {folder}",
            f"passsearch export {folder} --to deploy --replay",
        )
    )


def _from_result(result: RunResult) -> Mapping[str, Any]:
    """Return the settings that a result has, for a run whose settings cannot be read."""
    return {
        "toolchain": result.toolchain.name,
        "target": result.target,
        "objectives": list(result.verdict.objectives),
    }


def _inputs(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    inputs = settings.get("inputs")
    for name, kind in (inputs if isinstance(inputs, Mapping) else {}).items():
        if isinstance(kind, list) and len(kind) == 2 and isinstance(kind[0], list):
            yield str(name), input_text(*kind)


def input_text(shape: Sequence[int], dtype: str) -> str:
    """Return the type of an input as ``--input`` takes it."""
    return f"{dtype}[{','.join(map(str, shape))}]"


def _calls(model: Model) -> list[str]:
    """Return the options that choose functions and sizes."""
    cases = model.cases
    function = cases[0].function if cases else model.function or ""
    if len({case.function for case in cases}) > 1:
        function = ",".join(f"{case.name}:{case.weight:g}" for case in cases)
        inputs = [(f"{case.name}.{name}", input_text(*kind)) for case in cases for name, kind in case.inputs.items()]
        return ["--function", function, *(word for name, kind in inputs for word in ("--input", f"{name}:{kind}"))]
    words = ["--function", function] if function not in ("", "main") else []
    for name, first in cases[0].inputs.items() if cases else ():
        shapes = ["x".join(map(str, case.inputs[name][0])) for case in cases]
        if len(set(shapes)) > 1:
            sizes = (f"{shape}:{case.weight:g}" for shape, case in zip(shapes, cases, strict=True))
            words += ["--sizes", f"{name}={','.join(sizes)}"]
        else:
            words += ["--input", f"{name}:{input_text(*first)}"]
    return [*words, *(["--keep-symbolic"] if cases and cases[0].entry == "main" else [])]


def _word(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
