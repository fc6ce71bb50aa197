"""What ``tune --same-bits`` keeps the bits of."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from passsearch.api.common import is_of, run_folder
from passsearch.catalog import bind_pipeline, find_folders
from passsearch.core import RECOMMENDED, Candidate, SameBits, expand_home, require_trust
from passsearch.errors import UserError
from passsearch.evaluate import Session
from passsearch.export import PIPELINE, read_pipeline
from passsearch.export.record import read_record
from passsearch.store import read_result

DEFAULT = "default"
"""The reference that is the compiler's own build, the baseline of its dialect."""


def read_same_bits(session: Session, reference: str | Path | None, *, trust: bool) -> SameBits | None:
    """Return the bits that a user wants to keep; ``None`` for any.

    Args:
        session: The session.
        reference: ``default``, ``recommended``, a run folder or an export folder.
        trust: True to use the folder's passes.

    Raises:
        UserError: It is none of these, is of another network, compiler or target, or has no record of its bits; or
            nothing keeps bits here.
    """
    if reference is None:
        return None
    if reason := _obstacle(session):
        raise UserError(f"`--same-bits` is impossible here: {reason}.")
    text = str(reference)
    if text == DEFAULT:
        return SameBits(text, session.dialect.baseline)
    if text == RECOMMENDED:
        return SameBits(text, None)
    folder = expand_home(text)
    if run_folder(folder) is not None:
        found = _of_run(folder, session)
    elif (folder / PIPELINE).is_file():
        found = _of_export(folder, session)
    else:
        raise UserError(
            f"`{text}` is neither `{DEFAULT}` nor `{RECOMMENDED}`, and no folder of a run or an export; name one of "
            "these: --same-bits REFERENCE"
        )
    assert found.candidate is not None
    require_trust(text, find_folders(found.candidate.pipeline), trust=trust)
    bind_pipeline(found.candidate.pipeline, session.catalog)
    return found


def _obstacle(session: Session) -> str:
    """Return why bits cannot be kept; empty if they can."""
    if session.cannot_run_reason:
        return f"nothing runs, so no bits are known ({session.cannot_run_reason})"
    if session.device_kind != "cpu":
        return "it is tried on processors only"
    return "weights in fewer bits change the bits of outputs" if session.budget is not None else ""


def _of_run(folder: Path, session: Session) -> SameBits:
    result = read_result(folder)
    _check(folder, session, {**result["toolchain"], "target": result["target"], "model": result["model"]})
    if not is_of(result["model"], session.model):
        raise UserError(f"The run `{folder}` is of another network, or of other sizes.")
    bits = (result.get("deployment") or {}).get("bits")
    return SameBits(str(folder), Candidate.from_json(result["best"]), _recorded(folder, bits))


def _of_export(folder: Path, session: Session) -> SameBits:
    file, record = read_pipeline(folder), read_record(folder / PIPELINE)
    _check(folder, session, record)
    return SameBits(str(folder), Candidate(file.pipeline, file.build), _recorded(folder, record.get("bits")))


def _check(folder: Path, session: Session, recorded: Mapping[str, Any]) -> None:
    here = {
        "dialect": session.toolchain.dialect,
        "tvm_version": session.toolchain.tvm_version,
        "target": session.target,
        "network": session.model.sha256,
    }
    there = {**recorded, "network": recorded["model"]["sha256"]}
    for name, value in here.items():
        if there[name] != value:
            raise UserError(
                f"`{folder}` has another {name.replace('_', ' ')}, `{there[name]}` and not `{value}`; bits hold for "
                "one network, target and version of TVM only."
            )


def _recorded(folder: Path, bits: Mapping[str, str] | None) -> Mapping[str, str]:
    if not bits:
        raise UserError(
            f"`{folder}` has no record of its bits: it was made by an earlier version of passsearch, or nothing ran. "
            "Make it again."
        )
    return bits
