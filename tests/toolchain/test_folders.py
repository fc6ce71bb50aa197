"""The cache folder is closed to other users, and a command works without one that it cannot write."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from passsearch.toolchain import cache_folder, user_cache_folder


def test_only_the_user_may_enter_the_cache_folder() -> None:
    folder = cache_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    assert user_cache_folder().stat().st_mode & 0o777 == 0o700, "an earlier version left it open"


LOOK = "from passsearch.toolchain import cache_folder; [print(cache_folder()) for _ in range(2)]"


def look(cache: Path, *words: str, program: str = LOOK) -> tuple[list[str], str]:
    """Return the cache folder that a command would use, asked twice, and what it tells its user."""
    command = [*words, sys.executable, "-c", f"import logging; logging.basicConfig(); {program}"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "TMPDIR": str(cache)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


@pytest.mark.parametrize("obstacle", ["a file in its place", "small files only", "a full disk", "a read-only disk"])
def test_a_cache_folder_that_cannot_be_written_is_named_in_one_line(tmp_path: Path, obstacle: str) -> None:
    cache, words = tmp_path / "cache", ()
    cache.mkdir()
    if obstacle == "a file in its place":
        (cache / "passsearch").touch()
    if obstacle == "small files only":
        words = ("bash", "-c", 'ulimit -f 4; exec "$@"', "bash")
    if "disk" in obstacle:
        options = "size=8m" if "full" in obstacle else "ro"
        mount = f"mount -t tmpfs -o {options} none '{cache}' && exec \"$@\""
        words = ("unshare", "--mount", "bash", "-c", mount, "bash")
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
            pytest.skip("this user may not mount a file system")
    (first, second), told = look(cache, *words)
    assert first == second and not Path(first).exists(), "a temporary folder, which ends with the process"
    assert told.count("\n") == 1 and f"the cache folder `{cache / 'passsearch'}` cannot be used" in told
    assert obstacle != "a read-only disk" or "Read-only file system" in told


def test_a_cache_folder_that_can_be_written_is_used(tmp_path: Path) -> None:
    (first, second), told = look(tmp_path)
    assert first == second == str(tmp_path / "passsearch") and told == ""


def test_processes_share_a_lock_where_the_cache_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "passsearch").touch()
    lock = "from passsearch.evaluate import device_lock; print(device_lock('GPU-1'))"
    locks = {look(tmp_path, program=lock)[0][0] for _ in range(2)}
    assert len(locks) == 1 and Path(locks.pop()).parent.stat().st_mode & 0o777 == 0o700


def test_a_search_that_needs_the_cache_says_only_that_it_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "passsearch").touch()
    program = "import logging, passsearch; logging.basicConfig(); passsearch.tune('zoo:resnet_tiny')"
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "which cannot be written (File exists); name another folder: out=" in done.stderr
    assert "works without a cache" not in done.stderr
