"""Plants regressions and compares sides that are equal: ``python -m benchmarks.faults.planted_regressions [NAME…]``.

Three of the first ten, ``older``, ``unfused`` and ``repeated``, turned out to slow nothing down for certain; three more
were planted then. Some differ from the other side in something harmless too. ``planted_regressions.json`` has for each
what ``regress`` names; a row in it is not measured again. ``--table`` prints the rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import passsearch
from benchmarks.common import RESULTS, markdown, note, options, ratio_text, read, today, write
from passsearch.catalog import load

CATALOG = Path(__file__).with_name("planted_passes.yaml")
FILE = RESULTS / "planted_regressions.json"
SELF = "self"


@dataclass(frozen=True)
class Planted:
    """A planted regression.

    Attributes:
        network: The network.
        before: The faster side.
        after: The slower side.
        cause: Part of the name of the pass or setting that makes the difference.
        threads: Threads of each side.
    """

    network: str
    before: str
    after: str
    cause: str
    threads: int = 1


def changed(dialect: str, sequence: str, **changes: str | None) -> str:
    """Return a sequence of the catalog as text, with passes replaced by others, or left out for ``None``."""
    passes = load(dialect).sequences[sequence].pipeline.passes
    made = [changes.get(step.name, str(step)) for step in passes]
    return f"{dialect}:" + ",".join(step for step in made if step)


relax, relay = partial(changed, "relax", "schedule-cpu"), partial(changed, "relay", "O3-passes")


ORT, OV = "onnxruntime", "openvino"
REPEATED = "FuseAttention,Repeats"
PLANTED = {
    "unscheduled": Planted("zoo:resnet_tiny", relax(), relax(ScheduleCPU=None, ExpandMath=None), "ScheduleCPU"),
    "unfused": Planted("zoo:mobilenet_v2", relax(), relax(FuseOps=None, ExpandMath=None), "FuseOps"),
    "repeated": Planted("zoo:resnet_tiny", relax(), relax(FuseAttention=REPEATED, ExpandMath=None), "Repeats"),
    "rows": Planted("zoo:resnet18", relax(), relax(ScheduleCPU="ScheduleCPU{rows=1,vectors=1}"), "ScheduleCPU"),
    "layout": Planted("zoo:resnet18", relay(), relay(AlterOpLayout=None, CanonicalizeCast=None), "AlterOpLayout"),
    "older": Planted("zoo:bert_tiny", relay(), relay(FuseOps="FuseOps{fuse_opt_level=0}"), "FuseOps"),
    "graph": Planted(
        "zoo:resnet_tiny",
        f"{ORT}{{enable_mem_pattern=true}}",
        f'{ORT}{{enable_mem_pattern=false,graph_optimization_level="ORT_DISABLE_ALL"}}',
        "graph_optimization_level",
    ),
    "basic": Planted(
        "zoo:resnet18",
        f"{ORT}{{enable_cpu_mem_arena=true}}",
        f'{ORT}{{enable_cpu_mem_arena=true,graph_optimization_level="ORT_ENABLE_BASIC"}}',
        "graph_optimization_level",
    ),
    "threads": Planted("zoo:resnet18", ORT, f"{ORT}{{intra_op_num_threads=1}}", "intra_op_num_threads", threads=2),
    "math": Planted("zoo:vit_tiny", relax(), relax(ExpandMath=None), "ExpandMath"),
    "older fusion": Planted("zoo:mobilenet_v2", relay(), relay(FuseOps="FuseOps{fuse_opt_level=0}"), "FuseOps"),
    "unfused attention": Planted("zoo:bert_tiny", relax(), relax(FuseOps=None, ExpandMath=None), "FuseOps"),
    "streams": Planted("zoo:resnet18", OV, f"{OV}{{INFERENCE_NUM_THREADS=1}}", "INFERENCE_NUM_THREADS", threads=2),
}
SIDES = (ORT, OV, relax(), "relay:O3")
NETWORKS = ("zoo:resnet_tiny", "zoo:bert_tiny", "zoo:mobilenet_v2", "zoo:resnet18", "zoo:vit_tiny")
SELVES = {
    f"{SELF} {number}": Planted(
        NETWORKS[number // 4 % 5], SIDES[number % 4], SIDES[number % 4], "", threads=1 + number // 20
    )
    for number in range(40)
}


def main() -> None:
    """Compare what is not in the file yet, and write a row of each."""
    every = {**PLANTED, **SELVES}
    arguments = options(__doc__, ("names", tuple(every)), seconds=600.0, table=False)
    for name in () if arguments.table else arguments.names:
        if name not in read(FILE):
            note(name)
            write(FILE, {**read(FILE), name: _row(every[name], arguments.seconds)})
    rows = [_cells(name, row) for name, row in read(FILE).items()]
    print(markdown(("regression", "times the time", "verdict", "exchange", "kernel", "right"), rows))


def _row(planted: Planted, seconds: float) -> dict[str, Any]:
    document = passsearch.regress(
        planted.network,
        before=planted.before,
        after=planted.after,
        threads=planted.threads,
        seconds=seconds,
        catalogs=[CATALOG] if "Repeats" in planted.after else [],
        trust=True,
    )
    kept = ("verdict", "ratios", "confirmation", "named", "no_kernels", "no_exchanges", "others_percent", "seconds")
    named = document["named"]["exchange"] or ""
    is_right = (
        document["verdict"] == "slower" and planted.cause in named if planted.cause else not document["regressed"]
    )
    few = {key: (document[key] or [])[:8] for key in ("kernels", "exchanges")}
    return {"date": today(), **vars(planted), **{key: document[key] for key in kept}, **few, "right": is_right}


def _cells(name: str, row: Mapping[str, Any]) -> tuple[object, ...]:
    named = [row["named"][key] or "–" for key in ("exchange", "kernel")]
    return name, ratio_text(row["ratios"].get("fastest")), row["verdict"], *named, "yes" if row["right"] else "no"


if __name__ == "__main__":
    main()
