"""An artifact counts only if a run of this user wrote it, byte for byte."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from passsearch.evaluate import is_signed, sign
from passsearch.evaluate.signature import is_build_signed, sign_build
from passsearch.toolchain import cache_folder

OF = {"run": "1", "network": "2", "toolchain": "relax 0.27"}


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """A signed build."""
    folder = tmp_path / "artifact"
    folder.mkdir()
    (folder / "network.so").write_bytes(b"machine code")
    sign_build(folder, OF)
    return folder


def test_a_signed_build_is_signed_in_whatever_folder_the_run_is(artifact: Path, tmp_path: Path) -> None:
    assert is_build_signed(artifact, OF)
    moved = tmp_path / "moved"
    moved.mkdir()
    assert is_build_signed(artifact.rename(moved / artifact.name), OF)
    assert (cache_folder() / "seal.key").stat().st_mode & 0o777 == 0o600


def test_builds_that_were_swapped_have_no_valid_signature(artifact: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "network.so").write_bytes(b"other machine code")
    sign_build(other, OF)
    other.rename(tmp_path / "between")
    artifact.rename(other)
    (tmp_path / "between").rename(artifact)
    for folder in (artifact, other):
        assert not is_build_signed(folder, OF)


@pytest.mark.parametrize("kind", [*OF])
def test_a_build_of_another_run_network_or_toolchain_is_refused(artifact: Path, kind: str) -> None:
    assert not is_build_signed(artifact, {**OF, kind: "another"})
    # Who writes another origin into the signature has no key to sign it.
    content = json.loads((artifact / ".seal").read_text())
    content["of"][kind] = "another"
    (artifact / ".seal").write_text(json.dumps(content))
    assert not is_build_signed(artifact, {**OF, kind: "another"})


@pytest.mark.parametrize("content", ["", "0" * 64, "[]", "{}", '{"of": 1, "digest": "x"}', "nonsense", "\0", "é"])
def test_a_signature_that_is_none_is_no_error(artifact: Path, content: str) -> None:
    (artifact / ".seal").write_text(content)
    assert not is_build_signed(artifact, OF)


@pytest.mark.parametrize("change", ["content", "name", "addition", "link", "no signature", "foreign signature"])
def test_any_change_breaks_the_signature(artifact: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
    if change == "no signature":
        (artifact / ".seal").unlink()
    if change == "foreign signature":
        with monkeypatch.context() as another_user:
            another_user.setenv("XDG_CACHE_HOME", str(artifact.parent / "another user"))
            sign_build(artifact, OF)
    assert not is_build_signed(artifact, OF)


def test_a_file_is_signed_too(tmp_path: Path) -> None:
    file = tmp_path / "reference.npz"
    assert not is_signed(file, OF)
    file.write_bytes(b"outputs")
    sign(file, OF)
    assert is_signed(file, OF)
    file.write_bytes(b"others.")
    assert not is_signed(file, OF)


def test_a_full_disk_leaves_no_part_of_the_key(tmp_path: Path) -> None:
    script = """
import resource, signal, sys
from pathlib import Path
from passsearch.evaluate import sign
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))
sign(Path(sys.argv[1]), {})
"""
    (tmp_path / "network.so").write_bytes(b"code")
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "network.so")], check=True)
    assert list(cache_folder().iterdir()) == []
