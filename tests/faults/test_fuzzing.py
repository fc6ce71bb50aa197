"""Whatever a file or a pipe holds is read, or refused by an error of ours: never an internal error."""

import json
import shutil
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from passsearch.catalog import bind_pipeline, load
from passsearch.core import Pipeline
from passsearch.errors import EnvironmentFault, PassSearchError, UserError, WorkerDied
from passsearch.export import export_run, read_pipeline
from passsearch.frontends import resolve
from passsearch.store import NETWORK, RunFolder
from passsearch.worker import Worker

DATA = Path(__file__).parents[1] / "data"
PROGRAMS = Path(__file__).parents[1] / "worker" / "programs"
CATALOG = {
    "passes": [
        {
            "name": "Mine",
            "summary": "Does mine.",
            "factory": "my_passes:mine",
            "opt_level": 2,
            "parameters": {"level": {"type": "int", "default": 0, "alternatives": [0, 1], "meaning": "How much."}},
            "needs": [{"pass": "FoldConstant", "when": "batch_norm"}],
            "classes": ["all"],
            "role": "candidate",
        }
    ],
    "sequences": [{"name": "own", "summary": "One.", "pipeline": "Mine{level=1},FoldConstant"}],
    "classes": [
        {"name": "K", "title": "any", "when": {"all": [{"feature": "batch_norm", "min": 1, "evidence": "one"}]}}
    ],
}
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.just("x" * 5000),
    st.just({}),
    st.just([]),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)
FUZZ = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
FEW = settings(FUZZ, max_examples=15)
"""For examples that each start a process."""


def places(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to everything in a document."""
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [before, *(place for key, item in items for place in places(item, (*before, key)))]


def changed(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return a document with another value at one place."""
    if not place:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[place[0]] = changed(document[place[0]], place[1:], value)
    return copy


def documents(document: Any) -> st.SearchStrategy[Any]:
    """Return the document with up to two places changed to anything."""
    change = st.tuples(st.sampled_from(places(document)), VALUES)

    def apply(changes: list[tuple[tuple[Any, ...], Any]]) -> Any:
        result = document
        for place, value in changes:
            with suppress(LookupError, TypeError, ValueError):  # an earlier change removed the place
                result = changed(result, place, value)
        return result

    return st.lists(change, min_size=1, max_size=2).map(apply)


def damaged(content: bytes) -> st.SearchStrategy[bytes]:
    """Return bytes that were cut, overwritten or extended somewhere."""
    place = st.integers(0, len(content))

    def edit(start: int, length: int, inserted: bytes) -> bytes:
        return content[:start] + inserted + content[start + length :]

    return st.builds(edit, place, st.sampled_from([0, 1, 4, 100, len(content)]), st.binary(max_size=12))


@given(st.text(max_size=40) | st.text('A{}[]=,:"1e.', max_size=40))
@FUZZ
def test_pipelines(text: str) -> None:
    with suppress(UserError):
        assert Pipeline.parse(str(Pipeline.parse(text))) == Pipeline.parse(text)


@given(st.sampled_from(sorted(load("relax").entries)), st.dictionaries(st.text(max_size=5), VALUES, max_size=2))
@FUZZ
def test_arguments_of_passes(name: str, arguments: dict[str, Any]) -> None:
    with suppress(UserError):
        bind_pipeline(Pipeline.from_json([{"name": name, "arguments": arguments}]), load("relax"))


@given(
    documents(CATALOG).map(lambda document: yaml.safe_dump(document).encode())
    | damaged(yaml.safe_dump(CATALOG).encode())
)
@settings(FUZZ, max_examples=40)
def test_catalogs(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "catalog.yaml").write_bytes(content)
    with suppress(UserError):
        load("relax", tmp_path / "catalog.yaml")


@pytest.fixture(scope="module")
def pipeline_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pipeline file of an exported run."""
    run, folder = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("export") / "to"
    (run / NETWORK).write_text("{}")
    result = json.loads((DATA / "results" / "resnet_tiny-relax.json").read_text())
    return export_run(result, run, to=folder, trust=True) / "pipeline.json"


@given(st.data())
@FUZZ
def test_pipeline_files(pipeline_file: Path, tmp_path: Path, data: st.DataObject) -> None:
    document = json.loads(pipeline_file.read_text())
    texts = documents(document).map(lambda value: json.dumps(value).encode())
    content = data.draw(texts | damaged(pipeline_file.read_bytes()))
    (tmp_path / "pipeline.json").write_bytes(content)
    with suppress(UserError):
        read_pipeline(tmp_path / "pipeline.json")


LINES = [
    {"kind": "load", "key": "", "start": 0, "elapsed_s": 1.0, "fact": {"state": "a", "spent": {"apply": 1.0}}},
    {"kind": "edge", "key": "a|B", "start": 1, "elapsed_s": 0.5, "fact": {"state": "b", "seconds": 0.1}},
]


def line(entry: Any) -> bytes:
    """Return a line of the log whose checksum is right, whatever it says."""
    body = json.dumps(entry).encode()
    return b"%08x %s\n" % (crc32(body), body)


@given(
    log=documents(LINES).map(lambda entries: b"".join(map(line, entries if isinstance(entries, list) else [entries])))
    | damaged(b"".join(map(line, LINES))),
    settings_of_run=documents({"seed": 0, "trials": 3, "device": {"name": "cpu"}}).map(
        lambda it: json.dumps(it).encode()
    )
    | damaged(b'{"seed": 0, "trials": 3}'),
)
@FUZZ
def test_run_folders(tmp_path: Path, log: bytes, settings_of_run: bytes) -> None:
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_bytes(settings_of_run)
    (tmp_path / "run" / "log.jsonl").write_bytes(log)
    with suppress(UserError):
        folder = RunFolder(tmp_path / "run", {"seed": 0, "trials": 4, "device": {"name": "cpu"}})
        assert folder.log.clock_s >= 0
        folder.log.record("edge", "c", fact={"state": "d"})
        folder.close()


@given(st.data())
@FUZZ
def test_onnx_files(tiny_network: Path, tmp_path: Path, data: st.DataObject) -> None:
    (tmp_path / "network.onnx").write_bytes(data.draw(damaged(tiny_network.read_bytes())))
    with suppress(PassSearchError):
        resolve(str(tmp_path / "network.onnx"), folder=tmp_path / "models")


ANSWER = {"state": "a", "inputs": {}, "seconds": 1.0}
"""An answer as a pass could forge it; it lacks the number of the request."""


@given(st.binary(max_size=200) | documents(ANSWER).map(lambda answer: json.dumps(answer).encode() + b"\n"))
@example(b" ")
@FEW
def test_what_a_pass_writes_to_the_pipe_of_answers(tmp_path: Path, content: bytes) -> None:
    worker = Worker(
        Path(sys.executable),
        bridge="stub_bridge:StubBridge",
        target="any",
        threads=1,
        log=tmp_path / "worker.log",
        paths=(str(PROGRAMS),),
    )
    source = {"path": f"write:{content.hex()}", "format": "ir", "inputs": {}}
    # Closed after a failure too, so that its pipes are not found by another test.
    with closing(worker), suppress(WorkerDied, EnvironmentFault, UserError):
        # The bridge raises an error afterwards; that answer counts only where nothing came before it.
        answer = worker.ask({"verb": "load", "source": source}, deadline_s=30)
        assert not content and answer["error"]["kind"] == "compile_error"
