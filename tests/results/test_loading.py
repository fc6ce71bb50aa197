"""Records load on first use."""

import subprocess
import sys


def test_objectives_load_no_record_of_a_run() -> None:
    code = "import sys, passsearch.objectives; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    records = {name for name in loaded if name.startswith("passsearch.results.")}
    assert records == {"passsearch.results.record", "passsearch.results.parts"}


def test_every_name_is_found() -> None:
    import passsearch.results as results

    assert all(getattr(results, name) is not None for name in results.__all__)
