"""Are networks in float32 compiled to the same binary as before weights could have fewer bits?

``python -m benchmarks.measurement.float32_binaries``: ten small networks and pipelines are built by the code of a
commit, in a checkout that is removed afterwards, by today's code, and by today's code with a ``NarrowWeights`` that
narrows nothing. Binaries are compared by the digest of library and weights. Kernels that only one of both has are
counted as well. ``benchmarks/results/float32_binaries.json`` has a row for each; what is there by the same two commits
is not built again.
"""

import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from benchmarks.common import RESULTS, network_session, options, read_rows, write_row
from passsearch.core import Pipeline
from passsearch.evaluate import Session

BEFORE = "646d0060"
"""The commit before the first one with narrow weights."""

DIRTY = "-changed"

NETWORKS = {
    "resnet_tiny": ("default-passes", "nhwc-schedule-cpu", "winograd-schedule-cpu"),
    "vgg_tiny": ("schedule-cpu",),
    "unet_tiny": ("nhwc-schedule-cpu",),
    "bert_tiny": ("default-passes", "combine-schedule-cpu"),
    "vit_tiny": ("combine-schedule-cpu",),
    "gpt2_tiny": ("combine-schedule-cpu",),
    "llama_tiny_decode": ("decoder-schedule-cpu",),
}
ROOT, ROWS = Path(__file__).parents[2], RESULTS / "float32_binaries.json"
BUILD = """
import json, sys
from pathlib import Path
from passsearch.core import BuildOptions, PassSpec
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax.bridge import RelaxBridge
target, network, steps, folder = json.loads(sys.argv[1])
bridge = RelaxBridge(target)
module = bridge.load(ModelSource(path=Path(network), format="onnx", inputs={}))
for name, arguments, factory in steps:
    module = bridge.apply(module, PassSpec.of(name, **arguments), factory=factory)
artifact = bridge.build(module, BuildOptions(), Path(folder))
print(json.dumps({"digest": bridge.digest(artifact), "kernels": sorted(artifact.kernel_hashes().values())}))
"""


def main() -> None:
    """Build all networks three times, and write a row for each."""
    chosen = options(__doc__, before=(BEFORE, "commit to compare with"))
    titles = [(f"{network} by {name}", network, name) for network, names in NETWORKS.items() for name in names]
    known = read_rows(ROWS, "binaries")
    with TemporaryDirectory() as folder:
        old = Path(folder) / "checkout"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", old, chosen.before], cwd=ROOT, check=True)
        try:
            commits = {"before_commit": _commit(old), "now_commit": _commit(ROOT)}
            for title, network, name in titles:
                # What is not committed has no name, so it is built again.
                if commits.items() <= known.get(title, {}).items() and DIRTY not in commits["now_commit"]:
                    continue
                session = network_session(f"zoo:{network}", "relax")
                row = {**commits, **_row(name, old, session)}
                write_row(ROWS, "binaries", name=title, row=row, session=session)
                print(title, row, flush=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", old], cwd=ROOT, check=True)


def _commit(checkout: Path) -> str:
    """Return the commit of a checkout, marked where files differ from it."""
    command = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", f"--dirty={DIRTY}"]
    return subprocess.run(command, cwd=checkout, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def _row(name: str, old: Path, session: Session) -> dict[str, Any]:
    text = next(each["pipeline"] for each in _facts(old, "sequences") if each["name"] == name)
    # The text of the old catalog for all, as sequences have got better since.
    narrowed = text.replace("ScheduleRows", "NarrowWeights,ScheduleRows", 1)
    before, now, with_pass = (
        _built(pipeline, checkout, session) for pipeline, checkout in ((text, old), (text, ROOT), (narrowed, ROOT))
    )
    return {
        "before": before["digest"],
        "now": now["digest"],
        "same_as_before": before["digest"] == now["digest"],
        "same_with_empty_pass": None if narrowed == text else with_pass["digest"] == now["digest"],
        "kernels_before": len(before["kernels"]),
        "kernels": len(now["kernels"]),
        "only_before": (Counter(before["kernels"]) - Counter(now["kernels"])).total(),
        "only_now": (Counter(now["kernels"]) - Counter(before["kernels"])).total(),
    }


def _facts(checkout: Path, section: str) -> list[dict[str, Any]]:
    files = (yaml.safe_load(file.read_text()) for file in sorted((checkout / "pass_catalog/relax").glob("*.yaml")))
    return [each for file in files for each in file.get(section, ())]


def _built(pipeline: str, checkout: Path, session: Session) -> dict[str, Any]:
    factories = {each["name"]: each["factory"] for each in _facts(checkout, "passes")}
    steps = [[step.name, step.argument_values, factories[step.name]] for step in Pipeline.parse(pipeline).passes]
    with TemporaryDirectory() as folder:
        request = json.dumps([session.target, str(session.model.path), steps, f"{folder}/built"])
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        command = [str(session.toolchain.python), "-c", BUILD, request]
        done = subprocess.run(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()
