"""Engines as the user of ``bench`` names them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from passsearch.engines import declarations, unknown_engine_error
from passsearch.errors import UserError

# Neither a pipeline nor the name of an engine has a colon before its first brace.
QUALIFIED = re.compile(r"([A-Za-z0-9_.-]+):(.+)")
"""A toolchain and a pipeline of it."""


@dataclass(frozen=True)
class EngineRequest:
    """An engine as the user names it.

    Attributes:
        name: The user's text.
        toolchain: Name of the toolchain of a TVM pipeline; empty for another engine.
        pipeline: The pipeline, as ``compare`` reads it.
    """

    name: str
    toolchain: str = ""
    pipeline: str = ""


def read_engines(texts: Sequence[str]) -> list[EngineRequest]:
    """Return the engines that a user names.

    Raises:
        UserError: A name is unknown or stands there twice, or there is none.
    """
    if not texts:
        raise UserError("Nothing to measure; give for example: --engines relay:O3,onnxruntime")
    requests = []
    for text in texts:
        match = None if text in declarations() else QUALIFIED.fullmatch(text)
        if match is None and text not in declarations():
            raise unknown_engine_error(text)
        requests.append(EngineRequest(text, match[1], match[2]) if match else EngineRequest(text))
        if texts.count(text) > 1:
            raise UserError(f"Engine `{text}` is named twice; name each engine once.")
    return requests
