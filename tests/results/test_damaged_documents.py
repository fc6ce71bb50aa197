"""Damaged files of a run are refused in one line by all that read them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from run_folders import unpack

from passsearch.api import TuneResult
from passsearch.batch import collect, read_jobs, tune_jobs
from passsearch.errors import UserError
from passsearch.store import RESULT, read_ablation, read_result

Damage = Callable[[dict[str, Any]], object]
SEQUENCE = {"name": "AS-2", "of": 3, "is_best": False, "improved": True, "gain": {"ratio": 1.2, "interval": [1.1, 1.3]}}
REJECTED = {"name": "AS-2", "pipeline": "", "build": {"opt_level": 3}, "ratio": None, "reason": "no gain"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return unpack("relay-finished", tmp_path)


def damage(file: Path, change: Damage) -> None:
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


def refusal(read: Callable[[], object]) -> str:
    with pytest.raises(UserError) as refused:
        read()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def missing(*place: Any) -> Damage:
    def change(document: dict[str, Any]) -> None:
        *outer, last = place
        for key in outer:
            document = document[key]
        del document[last]

    return change


def null(*place: Any) -> Damage:
    def change(document: dict[str, Any]) -> None:
        *outer, last = place
        for key in outer:
            document = document.setdefault(key, {}) if isinstance(document, dict) else document[key]
        document[last] = None

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [(missing("best", "build"), "build"), (null("limits", "trials"), "trials"), (null("model", "inputs"), "inputs")],
)
def test_a_damaged_result_is_refused_by_all_that_use_it(run: Path, change: Damage, named: str, tmp_path: Path) -> None:
    damage(run / RESULT, change)
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(
        "runs: runs\nnetworks: [zoo:resnet_tiny]\nobjectives: [throughput]\n"
        "options: {trials: 8}\ndevices:\n  big: {toolchains: [relay]}\n"
    )
    [job] = tune_jobs(read_jobs(jobs))
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    run.rename(job.folder)
    assert named in refusal(lambda: TuneResult.read(job.folder).best)
    assert named in refusal(lambda: TuneResult.read(job.folder).export(tmp_path / "deployment"))
    assert job.result is None and not collect([job])[0].finished


def places() -> Iterator[Damage]:
    for key in ("name", "build", "ratio", "improved"):
        yield missing("sequence", key)
    yield from (missing("rejected", key) for key in ("name", "build"))
    yield from (null(key) for key in ("reference", "limits"))
    yield from (null("model", key) for key in ("function", "inputs"))
    yield from (null("verdict", key) for key in ("outcome", "keeps_throughput"))
    yield null("deployment", "reference")


@pytest.mark.parametrize("change", [*places()])
def test_a_result_without_what_every_version_wrote_is_refused(run: Path, change: Damage) -> None:
    def complete(result: dict[str, Any]) -> None:
        result.update(sequence={**result["best"], **SEQUENCE}, rejected=REJECTED)

    damage(run / RESULT, complete)
    read_result(run)
    damage(run / RESULT, change)
    refusal(lambda: read_result(run))


@pytest.mark.parametrize(
    "change",
    [
        *(missing("build", "opt_level"), missing("winner", "build"), missing("measured", "measured_at")),
        *(missing("rows", 0, "gain", metric) for metric in ("throughput", "compile_time")),
        *(missing("rows", 0, "throughput", "interval"), null("rows", 0, "throughput", "ratio")),
    ],
)
def test_an_ablation_without_what_every_version_wrote_is_refused(run: Path, change: Damage) -> None:
    damage(run / "ablation.json", change)
    refusal(lambda: read_ablation(run))
