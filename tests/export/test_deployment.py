"""Exported folders hold all they need, are refused where that is impossible, and rebuild the network."""

import ast
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deployments import PIPELINES, deploy_by_worker

import passsearch
from passsearch.core import BuildOptions, PassSpec, Pipeline
from passsearch.dialects import DIALECTS
from passsearch.errors import UserError
from passsearch.export import Deployment, check_replaceable, read_pipeline, write_deployment
from passsearch.measure.outputs import digest
from passsearch.standalone.deployment.checked_files import own_digest, write_sums
from passsearch.toolchain import Toolchain

LOADERS = (
    "run_model.py",
    "network_loader.py",
    "machine_pool.py",
    "loader_command.py",
    "run_model.cc",
    "network.h",
    "machine.h",
    "checked_files.h",
    "loader_examples.h",
)
INSTRUCTIONS = ("README.md", "Containerfile", "requirements.txt")
USER_PASSES, PROGRAMS = (Path(__file__).parent / name for name in ("user_passes", "programs"))
FACTORIES, PIPELINE = (PIPELINES["relay"].factories, PIPELINES["relay"].pipeline)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    network = tmp_path / "saved.json"
    network.write_text("{}")
    return Deployment(
        dialect=DIALECTS["relay"],
        tvm_version="0.16.dev0",
        target="llvm -mcpu=znver3",
        pipeline=PIPELINE,
        factories=FACTORIES,
        build=BuildOptions(opt_level=0, disabled=("FuseOps",), config=(("relay.FuseOps.max_depth", 4),)),
        network=network,
        model={"name": "resnet_tiny", "source": "zoo:resnet_tiny", "sha256": "ab", "batch": 1},
        inputs={"data": [[1, 3, 32, 32], "float32"]},
        ir_hashes=("00", "01", "02", "03", "04"),
        output_digests=tuple(digest([np.array([0.5, np.nan, -np.inf], "float32"), np.array([], "int64")])),
        tolerance=1e-3,
        tvm_commit="abc",
    )


def with_user_pass(deployment: Deployment, home: Path, source: str, *, module: str) -> Deployment:
    """A deployment with one more pass, whose module is a copy of a file of ``user_passes``."""
    file = home / (module.replace(".", "/") + ".py")
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(USER_PASSES / source, file)
    factories = {**FACTORIES, "Mine": f"{module}:Mine"}
    pipeline = Pipeline((*PIPELINE.passes, PassSpec.of("Mine")))
    ir_hashes = (*deployment.ir_hashes, "05")
    return replace(deployment, pipeline=pipeline, factories=factories, ir_hashes=ir_hashes, import_paths=(str(home),))


def test_a_folder_holds_every_file_the_script_reads(tmp_path: Path, deployment: Deployment) -> None:
    folder = write_deployment(tmp_path / "new" / "deploy", deployment)
    names = {file.name for file in folder.iterdir()}
    assert names == {
        "build_model.py",
        "build_steps.py",
        "build_target.py",
        "checked_files.py",
        "processor.py",
        "rebuild_checks.py",
        "linker.py",
        "input_values.py",
        "keep_nan.py",
        "quantized.py",
        "pipeline.json",
        "network.json",
        "fold_constant",
        *LOADERS,
        *INSTRUCTIONS,
    }
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["deploy"]
    text = (folder / "build_model.py").read_text()
    compile(text, "build_model.py", "exec")
    assert "passsearch" not in text
    assert text.splitlines()[1] == "# Network: resnet_tiny, batch 1"


def test_a_pipeline_file_reads_back(tmp_path: Path, deployment: Deployment) -> None:
    folder = write_deployment(tmp_path / "deploy", deployment)
    copy = read_pipeline(folder / "pipeline.json")
    assert copy == replace(deployment, network=folder / "network.json")
    assert read_pipeline(folder) == copy


def test_the_digest_has_text_for_values_json_cannot_hold(deployment: Deployment) -> None:
    first, empty = deployment.output_digests
    assert first["values"] == [0.5, "nan", "-inf"]
    assert first["max_abs"] == 0.5
    assert (empty["values"], empty["shape"], empty["max_abs"]) == ([], [0], 0.0)
    spread = digest([np.arange(1000, dtype="int32")])[0]["values"]
    assert (len(spread), spread[0], spread[-1]) == (64, 0, 999)


def test_a_line_break_in_a_name_stays_inside_the_comment(tmp_path: Path, deployment: Deployment) -> None:
    renamed = replace(deployment, model={**deployment.model, "name": 'a"""\nraise SystemExit(7)'})
    script = write_deployment(tmp_path / "deploy", renamed) / "build_model.py"
    assert script.read_text().splitlines()[1] == '# Network: a""" raise SystemExit(7), batch 1'


@pytest.mark.parametrize(
    "name", ["coding: utf_7 +AAo-raise SystemExit(7)#", "x\0", "\ud800", "\x1b[2J", "\u2028import os"]
)
def test_no_name_becomes_code_of_the_script(tmp_path: Path, deployment: Deployment, name: str) -> None:
    plain = write_deployment(tmp_path / "plain", deployment) / "build_model.py"
    renamed = replace(deployment, model={**deployment.model, "name": name}, target=f"llvm {name}")
    script = write_deployment(tmp_path / "deploy", renamed) / "build_model.py"
    assert ast.dump(ast.parse(script.read_bytes())) == ast.dump(ast.parse(plain.read_bytes()))
    assert "\x1b" not in script.read_text()


def test_a_user_pass_is_copied_without_an_import(tmp_path: Path, deployment: Deployment) -> None:
    source = USER_PASSES / "raises_on_import.py"
    home = tmp_path / "lib"
    mine = with_user_pass(deployment, home, source.name, module="mine.passes.first")
    for package in ("mine", "mine/passes"):
        shutil.copyfile(source, home / package / "__init__.py")
    folder = write_deployment(tmp_path / "deploy", mine)
    assert (folder / "first.py").read_text() == source.read_text()
    assert json.loads((folder / "pipeline.json").read_text())["passes"][-1]["file"] == "first.py"


@pytest.mark.parametrize("module", ["mine.fold_constant", "mine.json", "mine.build_model"])
def test_a_copy_never_hides_another_module(tmp_path: Path, deployment: Deployment, module: str) -> None:
    (tmp_path / "lib" / "mine").mkdir(parents=True)
    (tmp_path / "lib" / "mine" / "__init__.py").touch()
    mine = with_user_pass(deployment, tmp_path / "lib", "imports_tvm.py", module=module)
    folder = write_deployment(tmp_path / "deploy", mine)
    assert (folder / f"{module.replace('.', '_')}.py").read_text() == (USER_PASSES / "imports_tvm.py").read_text()


@pytest.mark.parametrize("module", ["linker", "mine.built", "mine.folders"])
def test_a_package_never_takes_the_place_of_other_files(tmp_path: Path, deployment: Deployment, module: str) -> None:
    package = tmp_path / "lib" / module.replace(".", "/")
    mine = with_user_pass(deployment, tmp_path / "lib", "imports_tvm.py", module=f"{module}.__init__")
    mine = replace(mine, factories={**mine.factories, "Mine": f"{module}:Mine"})
    (package.parent / "__init__.py").touch()
    step = json.loads((write_deployment(tmp_path / "deploy", mine) / "pipeline.json").read_text())["passes"][-1]
    assert step["file"] == {"linker": "pass_linker"}.get(module, module.replace(".", "_"))


@pytest.mark.parametrize("source", ["imports_scipy.py", "imports_neighbour.py", "imports_passsearch.py"])
def test_a_pass_that_imports_other_modules_is_refused(tmp_path: Path, deployment: Deployment, source: str) -> None:
    mine = with_user_pass(deployment, tmp_path / "lib", source, module="mine")
    with pytest.raises(UserError, match=r"Cannot export pass `Mine`: .* imports"):
        write_deployment(tmp_path / "deploy", mine)
    assert not (tmp_path / "deploy").exists()


def with_package(deployment: Deployment, home: Path, imported: str) -> Deployment:
    """A deployment with one more pass, whose package has the pass in a file of its own, which imports this."""
    (home / "mine" / "rules").mkdir(parents=True)
    (home / "mine" / "__pycache__").mkdir()
    (home / "mine" / "__pycache__" / "rows.pyc").touch()
    (home / "mine" / "__init__.py").write_text("from .rules.rows import Mine\n")
    (home / "mine" / "names.py").write_text("NAME = 'my pass'\n")
    code = f"{imported}\nfrom ..names import NAME\n\n\ndef Mine():\n    return NAME\n"
    (home / "mine" / "rules" / "rows.py").write_text(code)
    added = with_user_pass(deployment, home, "imports_tvm.py", module="file")
    return replace(added, factories={**added.factories, "Mine": "mine:Mine"})


def test_a_package_is_copied_with_its_files_and_loaded(tmp_path: Path, deployment: Deployment) -> None:
    folder = write_deployment(tmp_path / "deploy", with_package(deployment, tmp_path / "lib", "import math"))
    step = json.loads((folder / "pipeline.json").read_text())["passes"][-1]
    assert step["file"] == "mine"
    assert not (folder / "mine" / "__pycache__").exists()
    # An installed module of the same name was imported before.
    load = f"import sys, rebuild_checks; sys.modules['mine'] = sys; print(rebuild_checks.load_factory({step!r})())"
    # Not in this process, where the test's folder could be on the import path.
    done = subprocess.run([sys.executable, "-c", load], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == "my pass\n"
    assert write_deployment(tmp_path / "deploy", deployment) == folder


@pytest.mark.parametrize("imported", ["import scipy", "from ...other import rows", "from passsearch import core"])
def test_a_package_that_imports_other_modules_is_refused(tmp_path: Path, deployment: Deployment, imported: str) -> None:
    mine = with_package(deployment, tmp_path / "lib", imported)
    with pytest.raises(UserError, match=r"Cannot export pass `Mine`: its file `.*rows\.py` imports"):
        write_deployment(tmp_path / "deploy", mine)


def test_a_pass_without_a_source_is_refused(tmp_path: Path, deployment: Deployment) -> None:
    factories = {**FACTORIES, "FuseOps": "nowhere.at.all:FuseOps"}
    with pytest.raises(UserError, match=r"`nowhere\.at\.all`: its source file was not found"):
        write_deployment(tmp_path / "deploy", replace(deployment, factories=factories))


def test_an_earlier_export_is_replaced(
    tmp_path: Path, deployment: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="passsearch")
    folder = tmp_path / "deploy"
    folder.mkdir()
    write_deployment(folder, deployment)
    (folder / "built").mkdir()
    short = replace(deployment, pipeline=Pipeline(), ir_hashes=("00",))
    write_deployment(folder, short)
    assert {file.name for file in folder.iterdir()} == {
        "build_model.py",
        "build_steps.py",
        "build_target.py",
        "checked_files.py",
        "processor.py",
        "rebuild_checks.py",
        "linker.py",
        "input_values.py",
        "keep_nan.py",
        "quantized.py",
        "pipeline.json",
        "network.json",
        *LOADERS,
        *INSTRUCTIONS,
    }
    assert {file.name for file in tmp_path.iterdir()} == {"deploy", "saved.json"}
    assert caplog.messages[-1] == f"replaced the earlier export in {folder}"


def test_the_deployment_of_another_network_is_not_replaced(tmp_path: Path, deployment: Deployment) -> None:
    folder = write_deployment(tmp_path / "deploy", deployment)
    (folder / "built").mkdir()
    (folder / "built" / "network.so").touch()
    other = replace(deployment, model={**deployment.model, "sha256": "cd"})
    for refused in (lambda: check_replaceable(folder, network="cd"), lambda: write_deployment(folder, other)):
        with pytest.raises(UserError, match=r"is of another network .*`zoo:resnet_tiny`.*; choose another folder"):
            refused()
    assert (folder / "built" / "network.so").exists()
    check_replaceable(folder)
    write_deployment(folder, deployment)
    assert not (folder / "built").exists()


def test_a_folder_that_cannot_be_made_is_refused_by_its_own_name(tmp_path: Path, deployment: Deployment) -> None:
    # Not even the superuser, as whom tests may run, makes folders there.
    with pytest.raises(UserError, match=r"^`/proc/foo/bar` cannot be made: nothing can be written in `/proc`"):
        check_replaceable(Path("/proc/foo/bar"))
    check_replaceable(tmp_path / "new" / "deploy")
    assert not (tmp_path / "new").exists()
    too_long = tmp_path / ("x" * 250)  # and longer with what it is called before it is complete
    with pytest.raises(UserError, match=r"Cannot export to .*File name too long") as refusal:
        write_deployment(too_long, deployment)
    assert "partial" not in str(refusal.value)


def test_the_working_folder_is_not_replaced(
    tmp_path: Path, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deploy").mkdir()
    monkeypatch.chdir(tmp_path / "deploy")
    with pytest.raises(UserError, match="holds the working folder; export from another one"):
        write_deployment(Path(), deployment)


def test_other_files_are_never_replaced(tmp_path: Path, deployment: Deployment) -> None:
    folder = tmp_path / "deploy"
    folder.mkdir()
    (folder / "thesis.tex").touch()
    with pytest.raises(UserError, match="neither empty nor an earlier export"):
        write_deployment(folder, deployment)
    (folder / "thesis.tex").unlink()
    write_deployment(folder, deployment)
    (folder / "thesis.tex").touch()
    with pytest.raises(UserError, match=r"`thesis\.tex` in it is not part of one"):
        write_deployment(folder, deployment)
    with pytest.raises(UserError, match="is a file"):
        write_deployment(folder / "thesis.tex", deployment)


def test_a_failed_export_keeps_the_earlier_one(tmp_path: Path, deployment: Deployment) -> None:
    folder = write_deployment(tmp_path / "deploy", deployment)
    before = (folder / "pipeline.json").read_bytes()
    incomplete = replace(deployment, network=tmp_path / "lost.json", seed=5)
    with pytest.raises(UserError, match=r"Cannot export .*No such file .*lost\.json"):
        write_deployment(folder, incomplete)
    assert (folder / "pipeline.json").read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == {"deploy", "saved.json"}


def test_a_folder_that_does_not_build_keeps_the_earlier_one(tmp_path: Path, deployment: Deployment) -> None:
    folder = write_deployment(tmp_path / "deploy", deployment)
    before = (folder / "pipeline.json").read_bytes()

    def fail(new: Path) -> None:
        assert (new / "build_model.py").exists() and new.parent == folder.parent
        raise UserError("it does not build")

    with pytest.raises(UserError, match="it does not build"):
        write_deployment(folder, replace(deployment, seed=5), complete=fail)
    assert (folder / "pipeline.json").read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == {"deploy", "saved.json"}


@pytest.mark.parametrize(
    "key",
    ["dialect", "tvm_version", "target", "passes", "build", "model", "states", "tolerance", "expected"],
)
def test_a_missing_key_is_named(tmp_path: Path, deployment: Deployment, key: str) -> None:
    file = write_deployment(tmp_path / "deploy", deployment) / "pipeline.json"
    record = json.loads(file.read_text())
    del record[key]
    file.write_text(json.dumps(record))
    with pytest.raises(UserError, match=f"lacks `{key}`"):
        read_pipeline(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "passsearch-pipeline/9"}, "has schema `passsearch-pipeline/9`"),
        ({"dialect": "rely"}, "did you mean `relay`"),
        ({"passes": [{"name": "FuseOps"}], "states": ["0", "1"]}, r"lacks `passes\[0\]\.arguments`"),
        ({"passes": "FuseOps"}, "`passes` must be a list; got `FuseOps`"),
        ({"passes": ["FuseOps"]}, "`passes` must be a list of mappings"),
        ({"states": ["0"]}, "holds 1 hashes; 4 passes need 5"),
        ({"build": {}}, r"lacks `build\.opt_level`"),
        ({"tolerance": "small"}, "`tolerance` must be a number; got `small`"),
    ],
)
def test_a_wrong_value_is_one_line(
    tmp_path: Path, deployment: Deployment, change: dict[str, object], message: str
) -> None:
    file = write_deployment(tmp_path / "deploy", deployment) / "pipeline.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(UserError, match=message) as raised:
        read_pipeline(file)
    assert "\n" not in str(raised.value)


def test_other_files_are_refused_as_pipeline_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_pipeline(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("FuseOps")
    with pytest.raises(UserError, match="is not JSON"):
        read_pipeline(tmp_path / "text.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(UserError, match="has schema `None`"):
        read_pipeline(tmp_path / "list.json")


def test_the_readme_names_the_network_its_passes_and_the_size_of_every_file(
    tmp_path: Path, deployment: Deployment
) -> None:
    folder = write_deployment(tmp_path / "deploy", deployment)
    text = (folder / "README.md").read_text()
    assert text.startswith("# resnet_tiny, batch 1\n")
    assert "4. `FuseOps{fuse_opt_level=2}`" in text and "| `data` | float32[1, 3, 32, 32] |" in text
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != "README.md"]
    assert {"Containerfile", "__init__.py"} <= {file.name for file in files}
    for file in files:
        assert f"| `{file.relative_to(folder)}` | {file.stat().st_size:,} |" in text


def test_the_readme_says_how_the_passes_were_chosen(tmp_path: Path, deployment: Deployment) -> None:
    folder = write_deployment(tmp_path / "deploy", deployment)
    assert "compiler passes that were searched for it, and runs it.\n\nIt needs" in (folder / "README.md").read_text()
    model = {**deployment.model, "batch": None}
    choice, warning = "are those of the pipeline schedule-cpu", "The gain is not confirmed."
    write_deployment(folder, replace(deployment, model=model, choice=choice, warning=warning))
    text = (folder / "README.md").read_text()
    assert text.startswith("# resnet_tiny\n")
    assert f"compiler passes that {choice}, and runs it.\n\n{warning}\n\nIt needs" in text
    assert (folder / "build_model.py").read_text().splitlines()[1] == "# Network: resnet_tiny"


def test_a_name_stays_in_its_cell_of_the_readme(tmp_path: Path, deployment: Deployment) -> None:
    renamed = replace(deployment, model={**deployment.model, "source": "a|b`c\n# d"})
    text = (write_deployment(tmp_path / "deploy", renamed) / "README.md").read_text()
    assert r"| network | a\|b'c # d |" in text


def test_a_container_is_described_only_for_a_tvm_that_packages_install(tmp_path: Path, deployment: Deployment) -> None:
    folder = write_deployment(tmp_path / "deploy", deployment)
    assert "hhb-tvm==" in (folder / "requirements.txt").read_text()
    assert "FROM docker.io/library/python:3.10-slim" in (folder / "Containerfile").read_text()
    for other in (replace(deployment, tvm_version="0.15.1"), replace(deployment, target="cuda -arch=sm_80")):
        folder = write_deployment(tmp_path / "deploy", other)
        assert not {"Containerfile", "requirements.txt"} & {file.name for file in folder.iterdir()}
        assert "Containerfile" not in (folder / "README.md").read_text()


def test_a_tuning_database_travels_with_the_folder(tmp_path: Path, deployment: Deployment) -> None:
    database = tmp_path / "logs"
    database.mkdir()
    (database / "database_workload.json").write_text("[1]")
    tuned = PassSpec.of("FuseOps", fuse_opt_level=2, work_dir=str(database))
    steps = (*PIPELINE.passes[:3], tuned)
    folder = write_deployment(tmp_path / "deploy", replace(deployment, pipeline=Pipeline(steps)))
    shutil.rmtree(database)
    moved = tmp_path / "elsewhere"
    folder.rename(moved)
    arguments = read_pipeline(moved).pipeline.passes[3].argument_values
    assert arguments == {"fuse_opt_level": 2, "work_dir": str(moved / "folders" / "4-work_dir")}
    assert (Path(str(arguments["work_dir"])) / "database_workload.json").read_text() == "[1]"
    write_deployment(moved, deployment)
    assert not (moved / "folders").exists(), "a later export replaces it"


def test_a_file_that_a_pass_reads_travels_with_the_folder(tmp_path: Path, deployment: Deployment) -> None:
    records = tmp_path / "records.json"
    records.write_text("[1]")
    tuned = PassSpec.of("FuseOps", fuse_opt_level=2, work_dir=str(records))
    folder = write_deployment(
        tmp_path / "deploy", replace(deployment, pipeline=Pipeline((*PIPELINE.passes[:3], tuned)))
    )
    records.unlink()
    copy = Path(str(read_pipeline(folder).pipeline.passes[3].argument_values["work_dir"]))
    assert copy.name == "4-work_dir.json" and copy.read_text() == "[1]"


def test_a_folder_that_a_pass_needs_must_be_here(tmp_path: Path, deployment: Deployment) -> None:
    tuned = PassSpec.of("FuseOps", fuse_opt_level=2, work_dir=str(tmp_path / "gone"))
    steps = (*PIPELINE.passes[:3], tuned)
    with pytest.raises(UserError, match=r"`FuseOps` needs `.*gone`, which is not on this machine"):
        write_deployment(tmp_path / "deploy", replace(deployment, pipeline=Pipeline(steps)))
    assert not (tmp_path / "deploy").exists()


@pytest.fixture(scope="module")
def exported(relay: Toolchain, small_network: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("network")
    deployment = deploy_by_worker(relay, small_network, home)
    return write_deployment(home / "deploy", deployment)


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    copy = tmp_path / "moved"
    shutil.copytree(exported, copy)
    return copy


def run_script(python: Path, folder: Path, *options: str, cwd: str = "/") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(python), str(folder / "build_model.py"), *options]
    return subprocess.run(
        command, cwd=cwd, env={**environment, "PYTHONPATH": ""}, capture_output=True, text=True, timeout=300
    )


def change_record(folder: Path, **change: object) -> None:
    """Change the pipeline file as an export would have written it, with its own digest."""
    file = folder / "pipeline.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    written, content = read_record(folder)["sha256"]["pipeline.json"], file.read_bytes()
    file.write_bytes(content.replace(written.encode(), own_digest(content, written).encode()))


def read_record(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "pipeline.json").read_text()))


@pytest.mark.toolchain
def test_the_script_rebuilds_the_network(relay_python: Path, folder: Path) -> None:
    done = run_script(relay_python, folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("hash ok") == len(PIPELINE)
    assert "outputs ok: bit-identical" in done.stdout
    assert "compile time: " in done.stdout
    built = {file.name for file in (folder / "built").iterdir()}
    assert built == {"kernels.so", "graph.json", "parameters.bin", "examples", "conditions.txt", "SHA256SUMS"}


@pytest.fixture(scope="module")
def built(relay_python: Path, exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder, as another user would find it: elsewhere, built to another place, and read-only."""
    home = tmp_path_factory.mktemp("other")
    copy = home / "deploy"
    shutil.copytree(exported, copy)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    done = run_script(relay_python, copy, "--out", str(home / "built"))
    assert done.returncode == 0, done.stderr
    return copy


def run_loader(python: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(python), str(folder / "run_model.py"), *options]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=300)


@pytest.mark.toolchain
def test_the_loaders_run_the_network_and_compare_its_outputs(relay_python: Path, built: Path, tmp_path: Path) -> None:
    network = built.with_name("built")
    done = run_loader(relay_python, built, str(network))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 outputs deviate by 0 of the largest value")
    program = tmp_path / "run_model"
    compiled = run_loader(relay_python, built, "--compile", str(program))
    assert compiled.returncode == 0, compiled.stderr
    run = [str(program), str(network)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("1 outputs deviate by 0 of the largest value"), done.stderr

    wrong = tmp_path / "wrong"
    shutil.copytree(network, wrong)
    output = wrong / "examples" / "output-0.npy"
    np.save(output, np.load(output) + 1)
    write_sums(wrong)
    assert run_loader(relay_python, built, str(wrong)).returncode == 1
    assert subprocess.run([str(program), str(wrong)], capture_output=True, timeout=60).returncode == 1
    np.save(output, np.load(output).T)
    write_sums(wrong)
    done = subprocess.run([str(program), str(wrong)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "shape" in done.stderr


@pytest.mark.toolchain
def test_a_loader_without_a_built_network_says_what_to_run(relay_python: Path, folder: Path) -> None:
    done = run_loader(relay_python, folder)
    assert done.returncode == 1 and "run build_model.py first" in done.stderr


@pytest.mark.toolchain
def test_the_passes_apply_to_a_module_in_an_interpreter_with_tvm(relay_python: Path, folder: Path) -> None:
    packages = Path(np.__file__).parents[1]
    version = subprocess.run([str(relay_python), "--version"], capture_output=True, text=True).stdout
    if not version.startswith(f"Python {sys.version_info[0]}.{sys.version_info[1]}."):
        pytest.skip("the toolchain has another Python, and cannot load the packages of this one")
    home = str(Path(passsearch.__file__).parents[1])
    done = subprocess.run(
        [str(relay_python), str(PROGRAMS / "apply_pipeline.py"), str(folder), str(packages)],
        env={**os.environ, "PYTHONPATH": home},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("After pass 2, AlterOpLayout, the IR is not the recorded one")


def test_a_pipeline_is_refused_where_its_tvm_is_missing(tmp_path: Path, deployment: Deployment) -> None:
    folder = write_deployment(tmp_path / "deploy", replace(deployment, tvm_version="0.8.0"))
    with pytest.raises(UserError, match=r"is of TVM 0\.8\.0, and this interpreter has .*pip install"):
        passsearch.load_pipeline(folder).apply(object())


def test_a_pipeline_prints_in_a_line(tmp_path: Path, deployment: Deployment) -> None:
    pipeline = passsearch.load_pipeline(write_deployment(tmp_path / "deploy", deployment))
    assert repr(pipeline) == "<LoadedPipeline: 4 passes of relay for resnet_tiny, batch 1>"


@pytest.mark.toolchain
def test_a_changed_pass_argument_is_reported_at_its_pass(relay_python: Path, folder: Path) -> None:
    passes = read_record(folder)["passes"]
    change_record(folder, passes=[*passes[:3], {**passes[3], "arguments": {"fuse_opt_level": 0}}])
    done = run_script(relay_python, folder)
    assert done.returncode == 1
    assert "The IR diverged at pass 4 of 4, FuseOps: expected " in done.stderr
    assert done.stdout.count("hash ok") == 3
    assert not (folder / "built").exists()


@pytest.mark.toolchain
def test_a_folder_that_cannot_be_written_is_refused_before_the_build(
    relay_python: Path, folder: Path, tmp_path: Path
) -> None:
    working_folder = tmp_path / "working"
    working_folder.mkdir()
    # A file where a folder should be: not even the superuser, as whom tests may run, can write below it.
    done = run_script(relay_python, folder, "--out", str(folder / "pipeline.json" / "built"), cwd=str(working_folder))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "choose another folder with --out" in done.stderr
    assert list(working_folder.iterdir()) == [], "the import of TVM leaves nothing behind"


@pytest.mark.toolchain
def test_changed_outputs_are_reported(relay_python: Path, folder: Path) -> None:
    (expected,) = read_record(folder)["expected"]
    values = expected["values"]
    change_record(folder, expected=[{**expected, "sha256": "", "values": [values[0] + 1, *values[1:]]}])
    done = run_script(relay_python, folder, "--out", str(folder / "mine"))
    assert done.returncode == 1
    assert "The outputs diverged though the IR is the recorded one after every pass" in done.stderr
    assert not (folder / "mine").exists()


@pytest.mark.toolchain
def test_rounding_and_another_version_are_reported_and_accepted(relay_python: Path, folder: Path) -> None:
    (expected,) = read_record(folder)["expected"]
    change_record(folder, tvm_version="0.15.0", expected=[{**expected, "sha256": ""}])
    done = run_script(relay_python, folder, "--check-only")
    assert done.returncode == 0, done.stderr
    assert "note: this is TVM 0.16" in done.stdout
    assert "recorded with 0.15.0" in done.stdout
    assert "outputs ok: they deviate by 0 of the largest value" in done.stdout
    assert not (folder / "built").exists()
