"""An artifact counts only if a run of this user wrote it, byte for byte."""

from pathlib import Path

import pytest

from passsearch.evaluate import is_sealed, seal
from passsearch.toolchain import cache_folder


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """A sealed folder."""
    folder = tmp_path / "artifact"
    folder.mkdir()
    (folder / "network.so").write_bytes(b"machine code")
    seal(folder)
    return folder


def test_what_was_sealed_is_sealed_wherever_it_is_moved(artifact: Path, tmp_path: Path) -> None:
    assert is_sealed(artifact)
    assert is_sealed(artifact.rename(tmp_path / "moved"))
    assert (cache_folder() / "seal.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("change", ["content", "name", "addition", "link", "no seal", "foreign seal"])
def test_any_change_breaks_the_seal(artifact: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = artifact / "network.so"
    if change == "content":
        library.write_bytes(b"machine C0DE")
    if change == "name":
        library.rename(artifact / "another.so")
    if change == "addition":
        (artifact / "more.so").touch()
    if change == "link":
        library.rename(artifact.parent / "elsewhere.so")
        library.symlink_to(artifact.parent / "elsewhere.so")
    if change == "no seal":
        (artifact / ".seal").unlink()
    if change == "foreign seal":
        with monkeypatch.context() as another_user:
            another_user.setenv("XDG_CACHE_HOME", str(artifact.parent / "another user"))
            seal(artifact)
    assert not is_sealed(artifact)


def test_a_file_is_sealed_too(tmp_path: Path) -> None:
    file = tmp_path / "reference.npz"
    assert not is_sealed(file)
    file.write_bytes(b"outputs")
    seal(file)
    assert is_sealed(file)
    file.write_bytes(b"others.")
    assert not is_sealed(file)
