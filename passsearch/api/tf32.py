"""TF32 on a GPU, where the user asks for it."""

import re
from dataclasses import replace

from passsearch.catalog import catalog_in_tf32
from passsearch.core import TF32, Candidate
from passsearch.errors import UserError
from passsearch.evaluate import Session

TF32_ARCH = 80
"""First architecture of NVIDIA GPUs whose tensor cores multiply TF32."""


def session_in_tf32(session: Session) -> Session:
    """Return the session whose catalog multiplies float32 as TF32.

    Raises:
        UserError: The target has no tensor cores for it, or no sequence of the catalog uses them.
    """
    arch = re.search(r"sm_(\d+)", session.target)
    if session.device_kind != "gpu" or (arch and int(arch.group(1)) < TF32_ARCH):
        raise UserError(
            f"TF32 is of NVIDIA GPUs from sm_{TF32_ARCH} on, and the target is `{session.target}`. "
            'Leave out --precision tf32, or give one: --target "cuda -arch=sm_80"'
        )
    if not any(each.pipeline.is_in_tf32 for each in session.catalog.sequences.values()):
        raise UserError(
            f"No sequence of the dialect `{session.dialect.name}` multiplies in TF32; take another toolchain."
        )
    return replace(session, catalog=catalog_in_tf32(session.catalog), precision=TF32)


def refuse_float32(candidate: Candidate | None) -> None:
    """Refuse TF32 for a pipeline that the user names, and that multiplies in float32.

    Raises:
        UserError: It is such a pipeline.
    """
    if candidate is not None and not candidate.pipeline.is_in_tf32:
        raise UserError(
            f"The pipeline `{candidate.name or candidate.pipeline}` multiplies nothing in TF32; leave out --precision, "
            'or give one with `ScheduleGPU{precision="tf32"}`.'
        )
