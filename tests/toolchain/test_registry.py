import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest

from passsearch.errors import EnvironmentFault, UserError
from passsearch.toolchain import add_toolchain, get_toolchain, list_toolchains, remove_toolchain
from passsearch.toolchain.record import Toolchain
from passsearch.toolchain.registry import hold_lock, register


def test_a_registered_toolchain_is_listed_and_returned(data_folder: Path, toolchain: Toolchain) -> None:
    register(toolchain)
    assert list_toolchains() == (toolchain,)
    assert get_toolchain() == get_toolchain("mine") == get_toolchain(dialect="relay") == toolchain


def test_a_toolchain_that_is_installed_again_keeps_its_place(data_folder: Path, toolchain: Toolchain) -> None:
    other = replace(toolchain, name="other")
    for each in (toolchain, other, toolchain):
        register(each)
    assert list_toolchains() == (toolchain, other), "the first one is the default"


def test_without_a_name_the_first_dialect_is_meant(data_folder: Path, toolchain: Toolchain) -> None:
    register(replace(toolchain, name="old", dialect="relay"))
    assert get_toolchain().name == "old"
    register(replace(toolchain, name="new", dialect="relax"))
    register(replace(toolchain, name="newer", dialect="relax"))
    register(replace(toolchain, name="newest", dialect="of a later version"))
    assert get_toolchain().name == "new"


def test_removing_keeps_the_interpreter_of_the_user(data_folder: Path, toolchain: Toolchain) -> None:
    register(toolchain)
    assert remove_toolchain("mine") == toolchain
    assert list_toolchains() == ()
    assert toolchain.python.exists()


def test_removing_deletes_an_installed_environment(data_folder: Path, toolchain: Toolchain) -> None:
    python = data_folder / "toolchains" / "mine" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    register(replace(toolchain, python=python))
    remove_toolchain("mine")
    assert not (data_folder / "toolchains" / "mine").exists()


def test_none_installed_names_the_command(data_folder: Path) -> None:
    with pytest.raises(EnvironmentFault, match="passsearch toolchain install relax"):
        get_toolchain()
    with pytest.raises(EnvironmentFault, match="passsearch toolchain install relay"):
        get_toolchain("relay")


def test_misspelled_name_gets_a_proposal(data_folder: Path, toolchain: Toolchain) -> None:
    register(toolchain)
    with pytest.raises(UserError, match="Unknown toolchain `mien`; did you mean `mine`"):
        get_toolchain("mien")


def test_interpreter_that_was_deleted(data_folder: Path, toolchain: Toolchain) -> None:
    register(toolchain)
    toolchain.python.unlink()
    with pytest.raises(EnvironmentFault, match="is gone"):
        get_toolchain("mine")
    assert remove_toolchain("mine").name == "mine"


@pytest.mark.parametrize("name", ["this", "mine", "", "a/b", "../x", ".hidden"])
def test_names_that_cannot_be_added(data_folder: Path, toolchain: Toolchain, name: str) -> None:
    register(toolchain)
    with pytest.raises(UserError):
        add_toolchain(name, toolchain.python)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"toolchains": 3}'])
def test_damaged_file_is_named(data_folder: Path, text: str) -> None:
    data_folder.mkdir()
    (data_folder / "toolchains.json").write_text(text)
    with pytest.raises(EnvironmentFault, match=r"toolchains\.json.*damaged"):
        list_toolchains()


def test_missing_key_is_named_and_unknown_key_ignored(data_folder: Path, toolchain: Toolchain) -> None:
    assert Toolchain.from_json(toolchain.to_json() | {"from_the_future": 1}) == toolchain
    row = {key: value for key, value in toolchain.to_json().items() if key != "dialect"}
    with pytest.raises(EnvironmentFault, match="`dialect`"):
        Toolchain.from_json(row)
    with pytest.raises(EnvironmentFault, match="no list of `targets`"):
        Toolchain.from_json(toolchain.to_json() | {"targets": None})


def test_interrupted_write_keeps_the_old_file(
    data_folder: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(toolchain)

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(EnvironmentFault, match="No space left"):
        register(replace(toolchain, name="other"))
    assert [row["name"] for row in json.loads((data_folder / "toolchains.json").read_text())["toolchains"]] == ["mine"]
    assert {path.suffix for path in data_folder.iterdir()} == {".json", ".lock"}


def test_busy_lock_is_an_environment_fault(data_folder: Path) -> None:
    with (
        hold_lock("x"),
        pytest.raises(EnvironmentFault, match="Another passsearch"),
        hold_lock("x", timeout_s=0.01),
    ):
        pytest.fail("two processes hold one lock")


def test_concurrent_processes_lose_no_toolchain(data_folder: Path, toolchain: Toolchain) -> None:
    context = multiprocessing.get_context("spawn")
    rows = [replace(toolchain, name=f"t{number}") for number in range(4)]
    writers = [context.Process(target=register, args=(row,)) for row in rows]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=60)
    assert {entry.name for entry in list_toolchains()} == {row.name for row in rows}
