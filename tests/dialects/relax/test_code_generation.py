"""Code of kernels, generated on all cores."""

from typing import Any


def test_threads_generate_code_side_by_side_and_any_number_of_them_writes_the_same_library(cases: Any) -> None:
    results = {case["case"]: case for case in cases("code_cases.py")}
    message, threads, code, copies, calls, tiles = (
        results.pop(name) for name in ("refused", "threads", "code", "copies", "calls", "tiles")
    )
    assert set(results) == {"products", "open sizes", "no kernels", "without assertions"}
    assert all(case["same_library"] and case["same_outputs"] for case in results.values())
    # The options of the caller reach all threads.
    assert results["without assertions"]["differs"]
    assert threads == {"case": "threads", "one": "in turns", "two": "side by side", "none": "OSError"}
    assert code["kernels"] > 1 and code["not larger with assertions"] == [] and code["without names"] == {}
    own = {"tirx.use_async_copy": False, "tirx.disable_assert": True}
    assert copies == {"case": "copies", "cuda": True, "opencl": None, "llvm": None, "own": own}
    assert calls["whole"]
    assert tiles["wrong"] == []
    assert message["message"] == "not implemented"  # LLVM knows no index of a GPU's thread
