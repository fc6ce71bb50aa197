"""Seals: proof that a run of this user wrote an artifact, which is machine code and runs as soon as it is loaded.

A run folder may come from somebody else. The seal is a keyed digest (HMAC, RFC 2104) of the content, and the key is in
the user's cache folder. An artifact without a valid seal is built again.
"""

import contextlib
import hmac
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from passsearch.toolchain import cache_folder

KEY_BYTES = 32
CHUNK_BYTES = 1 << 20


def seal(path: Path) -> None:
    """Record that this user's run has written a file or a folder."""
    # Without its seal the artifact is built again when the run is continued; no reason to end it now.
    with contextlib.suppress(OSError):
        _seal_file(path).write_text(_keyed_digest(path))


def is_sealed(path: Path) -> bool:
    """Return whether a run of this user has written a file or a folder, and nothing in it has changed since."""
    try:
        return hmac.compare_digest(_seal_file(path).read_bytes(), _keyed_digest(path).encode())
    except OSError:
        return False


def _seal_file(path: Path) -> Path:
    return path / ".seal" if path.is_dir() else path.with_name(f"{path.name}.seal")


def _keyed_digest(path: Path) -> str:
    digest = hmac.new(_key(), digestmod="sha256")
    for file in _files(path):
        # The size separates a content from the next name.
        digest.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode(errors="surrogateescape"))
        with file.open("rb") as content:
            while chunk := content.read(CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    for file in sorted(path.rglob("*")):
        if file.is_symlink():
            raise OSError(f"`{file}` is a link")
        if file.is_file() and file != _seal_file(path):
            yield file


def _key() -> bytes:
    """Return the user's key; the first call makes it."""
    file = cache_folder() / "seal.key"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as content:
            content.write(secrets.token_bytes(KEY_BYTES))
        # Unlike a rename, a link leaves the key of a process that was faster.
        with contextlib.suppress(FileExistsError):
            os.link(partial, file)
        partial.unlink()
    key = file.read_bytes()
    if len(key) != KEY_BYTES:
        raise OSError(f"`{file}` is damaged")
    return key
