"""What the time of a build is spent on. Loaded only in an interpreter that has a TVM."""

import functools
import time
from collections.abc import Callable
from typing import Any

import tvm

from passsearch.core import CODEGEN, COMPILE_PARTS, CONSTANTS, FOLDING, LOWERING, PASSES, WRITING

_LOWERING = ("tir.", "tirx.", "s_tir.", "LowerTE")
"""Beginnings of the names of passes that work on kernels and not on the graph."""


@tvm.instrument.pass_instrument
class BuildClock:
    """Pass instrument that charges the time since its creation to ``COMPILE_PARTS``.

    A pass that another one runs counts to what the outer one is for: kernels that are lowered to evaluate a constant
    count to the constants. Time between passes counts to code generation until files are written.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(COMPILE_PARTS, 0.0)
        self._running: list[str] = []
        self._between, self._last_s = CODEGEN, time.perf_counter()

    def run_before_pass(self, module: tvm.IRModule, info: Any) -> None:
        """Begin a pass; TVM calls this before every one."""
        self.charge()
        self._running.append(str(info.name))

    def run_after_pass(self, module: tvm.IRModule, info: Any) -> None:
        """End a pass; TVM calls this after every one."""
        self.charge()
        self._running.pop()

    def charge(self) -> None:
        """Charge the time since the last call to what is running."""
        now_s = time.perf_counter()
        self.seconds[self._part] += now_s - self._last_s
        self._last_s = now_s

    def linking(self, link: Callable[..., Any]) -> Callable[..., Any]:
        """Return a linker whose time counts to writing, as does everything after it."""

        @functools.wraps(link)
        def timed(*arguments: Any, **options: Any) -> Any:
            self.charge()
            self._between = WRITING
            return link(*arguments, **options)

        return timed

    @property
    def _part(self) -> str:
        if not self._running:
            return self._between
        if FOLDING in self._running:
            return CONSTANTS
        return LOWERING if any(name.startswith(_LOWERING) for name in self._running) else PASSES
