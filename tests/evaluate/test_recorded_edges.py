"""The edges of a log, read back."""

from pathlib import Path

from passsearch.core import Failure, PassSpec
from passsearch.evaluate import recorded_edges
from passsearch.store import Log

FAILURE = Failure("compile_error", "apply", "FuseOps", "no such attribute")


def test_edges_come_in_order_and_other_facts_are_left_out(tmp_path: Path) -> None:
    with Log(tmp_path / "log.jsonl") as log:
        log.record("edge", "a|FoldConstant", fact={"state": "b", "seconds": 2.0})
        log.record("hash", "b", fact={"hash": "1"})
        log.record("edge", "b|FuseOps{fuse_opt_level=2}", fact={"state": "b", "seconds": 1.0})
        log.record("edge", "b|FuseOps", fact={"failure": FAILURE.to_json(), "seconds": 0.5})
    with Log(tmp_path / "log.jsonl", writable=False) as log:
        rows = list(recorded_edges(log))
    steps = [PassSpec.of("FoldConstant"), PassSpec.of("FuseOps", fuse_opt_level=2), PassSpec.of("FuseOps")]
    assert [(row.state, row.step) for row in rows] == list(zip("abb", steps, strict=True))
    assert [row.edge.target for row in rows] == ["b", "b", FAILURE]
    assert [row.is_no_op for row in rows] == [False, True, False]
    assert [row.edge.seconds for row in rows] == [2.0, 1.0, 0.5]
    assert [row.written_s for row in rows] == sorted(row.written_s for row in rows)
