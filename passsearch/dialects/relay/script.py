"""Deployment scripts for Relay, as text; needs no TVM."""

from collections.abc import Mapping
from pathlib import Path

from passsearch.core import Json, Pipeline

_SCRIPT = Path(__file__).with_name("build_model.py")
_FOR_LINTERS = "# ruff: noqa: B905, T201\n"


def render_script(record: Mapping[str, Json]) -> str:
    """The text of ``build_model.py`` for one exported folder.

    Args:
        record: What the folder's ``pipeline.json`` holds. The script reads it there; here it makes the
            comment at the top.
    """
    comment = "".join(f"# {line}\n" for line in _summary(record))
    return comment + _SCRIPT.read_text().removeprefix(_FOR_LINTERS)


def _summary(record: Mapping[str, Json]) -> list[str]:
    model, passes, build = record["model"], record["passes"], record["build"]
    assert isinstance(model, dict)
    assert isinstance(passes, list)
    assert isinstance(build, dict)
    steps = Pipeline.from_json([step for step in passes if isinstance(step, dict)]).passes
    lines = [
        f"Network: {model.get('name')}, batch {model.get('batch')}",
        f"Target: {record['target']}",
        f"TVM: {record['tvm_version']}",
        "Passes: " + ("none" if not steps else ", then ".join(map(str, steps))),
        f"Build: TVM's own pipeline at opt_level {build['opt_level']}",
    ]
    return [" ".join(line.split()) for line in lines]
