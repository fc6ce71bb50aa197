"""Whether a file system holds locks is asked where it may not."""

from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from passsearch.errors import UserError
from passsearch.store.locks import acquire, file_system, is_held

MOUNTS = "disk / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\nserver:/my\\040files /my\\040files cifs rw 0 0\n"


@pytest.mark.parametrize(
    ("path", "kind"), [("/home/user/runs", "nfs4"), ("/homes/user", "ext4"), ("/my files/run", "cifs"), ("/", "")]
)
def test_the_file_system_of_a_path_is_found(tmp_path: Path, path: str, kind: str) -> None:
    (tmp_path / "mounts").write_text(MOUNTS)
    assert file_system(Path(path), tmp_path / "mounts") == kind


def test_another_process_tells_whether_a_lock_is_held(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    acquire(lock)
    assert is_held(tmp_path / "lock")
    lock.release()
    assert not is_held(tmp_path / "lock")


def test_a_network_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passsearch.store.locks.file_system", lambda _: "nfs")
    lock = FileLock(tmp_path / "lock")
    acquire(lock)  # this disk has locks, whatever its type
    lock.release()
    monkeypatch.setattr("fcntl.flock", lambda *_: None)  # as a mount without locks answers
    with pytest.raises(UserError, match="two processes get one lock"):
        acquire(FileLock(tmp_path / "other"))


def test_a_lock_that_another_has_is_no_fault_of_the_disk(tmp_path: Path) -> None:
    with FileLock(tmp_path / "lock"), pytest.raises(Timeout):
        acquire(FileLock(tmp_path / "lock"))
