"""Signatures: proof that a run of this user wrote an artifact, which is machine code and runs as soon as it is loaded.

A run folder may come from somebody else. The signature is a keyed digest (HMAC, RFC 2104) of the content and of what it
is the content of, and the key is in the user's cache folder. An artifact without a valid signature, or with that of
another artifact, is built again. Files of signatures are named ``seal``, as in runs of earlier versions.
"""

import contextlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from passsearch.core import parse_json
from passsearch.evaluate.code_digest import dialect_digest
from passsearch.evaluate.session import Session
from passsearch.toolchain import cache_folder

Origin: TypeAlias = Mapping[str, str]
"""What a signed file or folder is of, by kind: run, network, toolchain, and the build by the name of its folder."""

BUILD = "build"

KEY_BYTES = 32
CHUNK_BYTES = 1 << 20


def origin_of(session: Session, run: str) -> Origin:
    """Return what the artifacts of a run are of; ``run`` is the run's own number."""
    toolchain = session.toolchain
    compiler = (toolchain.name, toolchain.tvm_version, toolchain.tvm_commit, toolchain.python, session.target)
    code = f"{dialect_digest(toolchain.dialect)} {session.catalogs_sha256}"
    return {"run": run, "network": session.model.sha256, "toolchain": " ".join(map(str, compiler)), "code": code}


def sign(path: Path, origin: Origin) -> None:
    """Record that this user's run has written a file or a folder, and of what.

    Args:
        path: The file or folder. That of a build keeps its name, which is part of the signature, for ever.
        origin: What it is of.
    """
    # Without its signature the artifact is built again when the run is continued; no reason to end it now.
    with contextlib.suppress(OSError):
        content = {"of": origin, "digest": _keyed_digest(path, origin)}
        _signature_file(path).write_text(json.dumps(content, sort_keys=True))


def is_signed(path: Path, origin: Origin) -> bool:
    """Return whether a run of this user has written a file or a folder, and nothing in it has changed since.

    Args:
        path: The file or folder.
        origin: What it must be of.
    """
    try:
        content = parse_json(_signature_file(path).read_text())
        digest = str(content["digest"])
        return content["of"] == origin and hmac.compare_digest(digest, _keyed_digest(path, origin))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # none, or one of an earlier version
        return False


def sign_build(folder: Path, origin: Origin) -> None:
    """Sign the folder of a build, which is named after the build."""
    sign(folder, {**origin, BUILD: folder.name})


def is_build_signed(folder: Path, origin: Origin) -> bool:
    """Return whether a run of this user has made this very build, and nothing in its folder has changed since."""
    return is_signed(folder, {**origin, BUILD: folder.name})


def _signature_file(path: Path) -> Path:
    return path / ".seal" if path.is_dir() else path.with_name(f"{path.name}.seal")


def _keyed_digest(path: Path, origin: Origin) -> str:
    digest = hmac.new(_key(), json.dumps(origin, sort_keys=True).encode() + b"\0", digestmod="sha256")
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
        if file.is_file() and file != _signature_file(path):
            yield file


def _key() -> bytes:
    """Return the user's key; the first call makes it."""
    file = cache_folder() / "seal.key"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        # A full disk fails the write, and every signature tries it again.
        try:
            with os.fdopen(descriptor, "wb") as content:
                content.write(secrets.token_bytes(KEY_BYTES))
            # Unlike a rename, a link leaves the key of a process that was faster.
            with contextlib.suppress(FileExistsError):
                os.link(partial, file)
        finally:
            partial.unlink()
    key = file.read_bytes()
    if len(key) != KEY_BYTES:
        raise OSError(f"`{file}` is damaged")
    return key
