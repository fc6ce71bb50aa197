"""The text of a pipeline that was applied."""

from passsearch.report import application_text
from passsearch.results import Application, AppliedStep


def test_every_kernel_is_listed_with_the_storage_of_its_weights() -> None:
    lines = tuple(f"matmul{place}: 768x768 in int8" for place in range(9))
    reason = "take: 32000x768 in float32: some are infinite or NaN"
    steps = [
        AppliedStep(step="FuseTIR", changed=True, seconds=0.1, operators={"matmul": -1}, ir=None),
        AppliedStep(
            step='NarrowWeights{storage="int8"}',
            changed=True,
            seconds=0.2,
            operators={"Constant": 9},
            ir=None,
            weights=(*lines, reason),
        ),
    ]
    application = Application(
        toolchain="relax", target="llvm", pipeline="", steps=tuple(steps), failure=None, traceback=""
    )
    text = application_text(application)
    assert 'Weights after pass 2, NarrowWeights{storage="int8"}:' in text and "Weights after pass 1" not in text
    assert all(f"  {line}" in text.splitlines() for line in (*lines, reason))
    assert "weights" not in steps[0].to_json() and steps[1].to_json()["weights"] == [*lines, reason]
