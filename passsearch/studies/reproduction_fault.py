"""What the script of a reproduction has shown, and whether that is still the fault to be reproduced."""

import contextlib
import json
import math
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from passsearch.dialects.reproduction import CRASH, REFUSAL, SLOW, WRONG
from passsearch.worker import WatchedRun

LATE = "no end within the deadline"
START = "start"
"""What a script does before its first step, which is none of the compiler's."""

LEAST_RATIO = 1.1
"""Ratio of times from which one of two is called slower, if the user gives no other."""

KEPT_SHARE = 0.8
"""Share of the logarithm of the ratio first seen that a smaller network must keep."""

KEPT_DEVIATION = 0.1
"""Share of the deviation first seen that a smaller network must keep, where that exceeds the limit of rounding."""

MOST_FINITE = 1e15
"""Deviation above which one of two outputs is NaN, infinite or zero everywhere."""

LEAST_LIKENESS = 0.6
"""Least likeness of the words in two messages of one refusal; sizes and names of values in them may differ."""

_FOLDERS = re.compile(r"(?<![\w.])(?:/[\w.+-]+)+/")
"""Folders of absolute paths in messages, which say where a user works."""


@dataclass(frozen=True)
class Shown:
    """What one run of a script has shown.

    Attributes:
        step: The last step that it began.
        crash: Signal or deadline that ended it; empty for a script that came to its end.
        refusal: The exception of the compiler, as ``type: message``; empty for none.
        deviation: Deviation of the outputs, as a share of the largest; ``None`` if it did not compare.
        ratio: Ratio of the times; ``None`` if it did not measure.
        last: The last document that it printed.
        error: Why it proves nothing; empty if it does.
    """

    step: str = ""
    crash: str = ""
    refusal: str = ""
    deviation: float | None = None
    ratio: float | None = None
    last: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def is_late(self) -> bool:
        """True if the deadline ended it."""
        return self.crash == LATE

    @property
    def text(self) -> str:
        """It in words."""
        if self.crash:
            return f"{self.crash} in {self.step}"
        if self.refusal:
            return f"refused in {self.step}: {self.refusal}"
        if self.ratio is not None:
            return f"{self.ratio:.2f} times as long"
        if self.deviation is not None:
            return f"outputs deviate by {self.deviation:.2g} of the largest"
        return self.error or "nothing"


def read_shown(run: WatchedRun) -> Shown:
    """Read what a script printed."""
    documents = list(_documents(run.output))
    merged = {key: value for document in documents for key, value in document.items()}
    step, last = str(merged.get("step", START)), documents[-1] if documents else {}
    if run.status is None:
        return Shown(step, LATE, last=last)
    if run.status < 0:
        return Shown(step, f"killed by {signal.Signals(-run.status).name}", last=last)
    if "refused" in merged:
        text = _FOLDERS.sub("", str(merged["refused"]))
        # Neither a module that is not there nor what fails before the first step says anything of the compiler.
        is_own = step == START or text.startswith(("ImportError:", "ModuleNotFoundError:"))
        return Shown(step, error=text, last=last) if is_own else Shown(step, refusal=text, last=last)
    if run.status or not last:
        return Shown(step, error=(run.errors.strip() or "?").splitlines()[-1], last=last)
    return Shown(step, deviation=merged.get("deviation"), ratio=merged.get("ratio"), last=last)


def _documents(output: str) -> Iterator[dict[str, Any]]:
    """Yield the documents in what a script printed; passes may print lines in braces, too."""
    for line in output.splitlines():
        if line.startswith("{"):
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(line)


@dataclass(frozen=True)
class Fault:
    """The fault to be reproduced.

    Attributes:
        kind: One of the kinds of ``passsearch.dialects.reproduction``.
        first: What was seen on the whole network.
        bound: Least deviation or ratio that is still this fault.
    """

    kind: str
    first: Shown
    bound: float = 0.0

    def is_shown_by(self, shown: Shown) -> bool:
        """Return whether a smaller network shows the same fault."""
        if self.kind == CRASH:
            return (shown.crash, shown.step) == (self.first.crash, self.first.step)
        if self.kind == REFUSAL:
            return bool(shown.refusal) and shown.step == self.first.step and _alike(shown.refusal, self.first.refusal)
        value = shown.deviation if self.kind == WRONG else shown.ratio
        if value is None or value <= self.bound:
            return False
        # Compilers may treat NaN as they like, so it is another fault than a wrong number.
        return self.kind != WRONG or (value > MOST_FINITE) == ((self.first.deviation or 0.0) > MOST_FINITE)


def failure_of(shown: Shown, *, limit: float) -> Fault | None:
    """Return the fault that a script has shown without measuring times; ``None`` if there is none.

    Args:
        shown: What it has shown.
        limit: Largest deviation that rounding explains.
    """
    if shown.crash:
        return Fault(CRASH, shown)
    if shown.refusal:
        return Fault(REFUSAL, shown)
    if shown.deviation is not None and shown.deviation > limit:
        return Fault(WRONG, shown, max(limit, KEPT_DEVIATION * min(1.0, shown.deviation)))
    return None


def slowdown_of(shown: Shown, *, ratio: float | None) -> Fault | None:
    """Return the slowdown that a script has shown; ``None`` if there is none.

    Args:
        shown: What it has shown.
        ratio: Least ratio that the user asks for; by default it follows from what is seen first.
    """
    if shown.ratio is None or shown.ratio <= (ratio or LEAST_RATIO):
        return None
    return Fault(SLOW, shown, ratio or math.exp(KEPT_SHARE * math.log(shown.ratio)))


def _alike(one: str, other: str) -> bool:
    """Return whether two messages are of one refusal: the same names of types and operators, and most other words."""
    first, second = ([word for word in re.findall(r"[A-Za-z]+", text) if len(word) > 1] for text in (one, other))
    names = [{word for word in words if word[0].isupper()} for words in (first, second)]
    # Operators of TVM, such as `nn.softmax`.
    dotted = [{*re.findall(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+", text)} for text in (one, other)]
    return (names[0], dotted[0]) == (names[1], dotted[1]) and SequenceMatcher(
        None, first, second
    ).ratio() >= LEAST_LIKENESS
