"""Run folders as another user could send them: the passes' factories and import paths are not the catalog's."""

import json
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parents[1] / "report" / "data" / "result.json"
MODULE = "foreign_passes"


def foreign_run(folder: Path, canary: Path, *, dialect: str, toolchain: str, factory: str, name: str = "Mine") -> Path:
    """Write a finished run whose winner is one pass.

    Args:
        folder: The run folder; it is made.
        canary: File that the module of passes beside the result writes when it is imported.
        dialect: The run's dialect.
        toolchain: The run's toolchain.
        factory: ``module:function`` of the pass.
        name: The pass.
    """
    folder.mkdir()
    source = f"open({str(canary)!r}, 'w').close()\n\ndef Mine():\n    raise ValueError('this pass does nothing')\n"
    (folder / f"{MODULE}.py").write_text(source)
    (folder / "network.json").write_text("{}")
    document: dict[str, Any] = json.loads(RESULT.read_text())
    document["toolchain"] |= {"dialect": dialect, "name": toolchain}
    document["best"] |= {"pipeline": name, "build": {"opt_level": 0, "required": [], "disabled": [], "config": {}}}
    document["deployment"] = {
        "states": ["00", "01"],
        "expected": [],
        "seed": 4,
        "inputs": {"data": [[1], "float32"]},
        "factories": {name: factory},
        "tolerance": 1e-4,
        "paths": [str(folder)],
    }
    (folder / "result.json").write_text(json.dumps(document))
    return folder
