"""A candidate is named by the run that found it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jobs import MOSTLY_RELAX, Job

import passsearch
from passsearch.api.common import TUNED, network_session, read_candidate
from passsearch.core import NetworkOptions, TensorType
from passsearch.errors import UserError
from passsearch.evaluate import Session

pytestmark = MOSTLY_RELAX


@pytest.fixture
def session(job: Job, tuned: passsearch.TuneResult, tiny_network: Path) -> Session:
    """The network and the compiler of the finished run, opened again."""
    return network_session(tiny_network, None, NetworkOptions(toolchain=job.toolchain.name))


def test_a_run_folder_names_its_winner(session: Session, tuned: passsearch.TuneResult) -> None:
    winner = read_candidate(session, str(tuned.run), trust=False)
    assert str(winner.pipeline) == tuned.document["best"]["pipeline"]
    assert winner.build.to_json() == tuned.document["best"]["build"]


def test_tuned_is_the_winner_of_the_last_kept_run(
    session: Session, tuned: passsearch.TuneResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"no run on .* is kept; run first: passsearch tune"):
        read_candidate(session, TUNED, trust=False)
    shutil.copytree(tuned.run, tmp_path / "passsearch" / "runs" / "kept")
    assert str(read_candidate(session, TUNED, trust=False).pipeline) == tuned.document["best"]["pipeline"]


def test_tuned_is_of_the_same_sizes_and_finished(
    session: Session, tuned: passsearch.TuneResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = shutil.copytree(tuned.run, tmp_path / "passsearch" / "runs" / "kept") / "result.json"
    inputs = {
        name: TensorType(tuple(kind["shape"]), kind["dtype"])
        for name, kind in tuned.document["model"]["inputs"].items()
    }
    larger = {name: TensorType((8, *kind.shape[1:]), kind.dtype) for name, kind in inputs.items()}

    def winner(**changes: Any) -> str:
        asked = replace(session, model=replace(session.model, **changes))
        return str(read_candidate(asked, TUNED, trust=False).pipeline)

    pipeline = tuned.document["best"]["pipeline"]
    assert winner(inputs=inputs) == pipeline
    copy = {"sha256": "that of a copy with fixed sizes", "inputs": {}}
    assert winner(**copy, original=replace(session.model, inputs=inputs)) == pipeline
    for changes in (
        {"inputs": larger},
        {"batch": 8},
        {"function": "other"},
        {**copy, "original": replace(session.model, inputs=larger)},
    ):
        with pytest.raises(UserError, match="of these sizes"):
            winner(**changes)
    result = json.loads(file.read_text())
    file.write_text(json.dumps({**result, "interrupted": True}))
    with pytest.raises(UserError, match="last finished run"):
        winner()


def test_a_run_of_another_dialect_is_refused(session: Session, tuned: passsearch.TuneResult, tmp_path: Path) -> None:
    other = "relax" if session.dialect.name == "relay" else "relay"
    shutil.copytree(tuned.run, tmp_path / "run")
    file = tmp_path / "run" / "result.json"
    file.write_text(file.read_text().replace(f'"dialect": "{session.dialect.name}"', f'"dialect": "{other}"'))
    with pytest.raises(UserError, match=f"is of the dialect `{other}`, and the toolchain of `{session.dialect.name}`"):
        read_candidate(session, str(tmp_path / "run"), trust=False)


def test_a_run_folder_that_names_a_folder_is_asked_about(
    session: Session, tuned: passsearch.TuneResult, tmp_path: Path
) -> None:
    shutil.copytree(tuned.run, tmp_path / "run")
    file = tmp_path / "run" / "result.json"
    result = json.loads(file.read_text())
    result["best"]["pipeline"] = 'MetaScheduleApplyDatabase{sha256="0",work_dir="/x"}'
    file.write_text(json.dumps(result))
    with pytest.raises(UserError, match="--trust"):
        read_candidate(session, str(tmp_path / "run"), trust=False)


def test_a_folder_with_the_name_of_a_baseline_is_not_the_baseline(
    session: Session, tuned: passsearch.TuneResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    baseline = session.dialect.baseline
    shutil.copytree(tuned.run, tmp_path / baseline.name)
    monkeypatch.chdir(tmp_path)
    assert read_candidate(session, baseline.name, trust=False) == baseline
    path = str(tmp_path / baseline.name)
    assert read_candidate(session, path, trust=False).name == path, "named by its path, it is not taken for it either"


def test_a_pipeline_with_a_conflict_is_read_with_one_warning(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    entry = next(entry for entry in session.catalog.entries.values() if entry.conflicts)
    written = f"{entry.conflicts[0]},{entry.name}"
    assert str(read_candidate(session, written, trust=False).pipeline) == written
    [message] = caplog.messages
    assert message.startswith(f"`{entry.name}` after `{entry.conflicts[0]}`: the catalog says")


def test_what_passsearch_reads_back_brings_no_warning_of_conflicts(
    session: Session, tuned: passsearch.TuneResult, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = next(entry for entry in session.catalog.entries.values() if entry.conflicts)
    recorded = f"{entry.conflicts[0]},{entry.name}"
    shutil.copytree(tuned.run, tmp_path / "run")
    tuned.export(tmp_path / "exported")
    result, file = tmp_path / "run" / "result.json", tmp_path / "exported" / "pipeline.json"
    document = json.loads(result.read_text())
    document["best"]["pipeline"] = recorded
    result.write_text(json.dumps(document))
    names = (entry.conflicts[0], entry.name)
    passes = [{"name": name, "arguments": {}, "factory": session.catalog.entry(name).factory} for name in names]
    states = ["0"] * (len(passes) + 1)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"passes": passes, "states": states}))
    for name in (str(tmp_path / "run"), str(file)):
        assert str(read_candidate(session, name, trust=False).pipeline) == recorded
    assert str(read_candidate(session, recorded, trust=False, warn=False).pipeline) == recorded
    for name in session.catalog.sequences:
        read_candidate(session, name, trust=False)
    assert not caplog.messages


def test_exported_files_are_named_by_their_folders(
    tuned: passsearch.TuneResult, session: Session, tmp_path: Path
) -> None:
    folders = [tuned.export(tmp_path / name) for name in ("first", "second", session.dialect.baseline.name)]
    files = [str(folder / "pipeline.json") for folder in folders]
    assert [read_candidate(session, file, trust=False).name for file in files] == ["first", "second", files[2]]
