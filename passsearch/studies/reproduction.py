"""The smallest network that still shows a fault of a compiler, by delta debugging.

Every step is confirmed by a script in a process of its own, and that script is the one that is delivered.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from passsearch.core import Candidate, PassSpec, TimeLimit, fewest
from passsearch.dialects.reproduction import CRASH, REFUSAL, SLOW, ScriptForm
from passsearch.evaluate import Session
from passsearch.frontends import OnnxParts, Part, sizes_of
from passsearch.store import write_json
from passsearch.studies.reproduction_fault import Fault, Shown, failure_of, slowdown_of
from passsearch.studies.reproduction_probe import NETWORK, SCRIPT, Probed, Prober, random_weights

REPORT = "report.json"
NEEDED, UNKNOWN = "the fault needs its values", "the time was over before other values were tried"

LEAST_SIZE = 4
"""Small size that most kernels are built for."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FaultQuestion:
    """What is asked for.

    Attributes:
        candidates: The pipeline, and the one that it is compared with.
        is_against_runtime: True to compare its times with those of ONNX Runtime.
        ratio: Least ratio of a slowdown.
        limit: Largest deviation of outputs that rounding explains.
    """

    candidates: Sequence[Candidate]
    is_against_runtime: bool = False
    ratio: float | None = None
    limit: float = 0.0

    @property
    def measures(self) -> bool:
        """True if a slowdown is asked for where nothing else is wrong."""
        return self.is_against_runtime or len(self.candidates) > 1


def reproduce_fault(
    session: Session,
    parts: OnnxParts,
    question: FaultQuestion,
    *,
    folder: Path,
    scratch: Path,
    time_limit: TimeLimit,
    progress: Callable[[str, int, int], None],
) -> dict[str, Any]:
    """Find a fault, reduce the network and write it with a script and a report.

    Args:
        session: Toolchain, target and catalog.
        parts: The network.
        question: What is asked for.
        folder: Folder for the result.
        scratch: Folder for what is tried.
        time_limit: When it is over, the smallest network so far is the result.
        progress: Callback.

    Returns:
        The report; its ``kind`` is empty if no fault is seen, and nothing is written then.
    """
    sides = tuple(candidate.pipeline.passes for candidate in question.candidates)
    whole = Probed(tuple(range(len(parts.nodes))), frozenset(parts.weights), sides)
    with Prober(
        session,
        parts,
        question.candidates,
        folder=scratch,
        is_against_runtime=question.is_against_runtime,
        time_limit=time_limit,
    ) as prober:
        progress("looking for the fault", 0, 0)
        found = _find(prober, whole, question)
        if isinstance(found, str):
            return {"kind": "", "seen": found, "seconds": round(time_limit.clock_s(), 1)}
        fault, form = found
        # The deadline of a script that does not end says nothing if it is short.
        prober.is_patient = fault.first.is_late
        whole = replace(whole, sides=whole.sides[:1]) if fault.kind in (CRASH, REFUSAL) else whole
        _log.info("%s: %s", fault.kind, fault.first.text)
        reducer = _Reducer(prober, fault, form, progress=progress)
        smallest = reducer.reduce(whole, parts)
        return _write(reducer, whole, smallest, session=session, parts=parts, folder=folder)


def _find(prober: Prober, whole: Probed, question: FaultQuestion) -> tuple[Fault, ScriptForm] | str:
    """Return the fault with the form of script that shows it, TVM alone first; in words what is seen if none is."""
    seen = []
    for is_alone in [True, False] if prober.can_build_alone() else [False]:
        shown = prober.run(whole, prober.form("", is_alone=is_alone))
        if fault := failure_of(shown, limit=question.limit):
            form, first = prober.form(fault.kind, is_alone=is_alone), replace(whole, sides=whole.sides[:1])
            if fault.kind != CRASH or len(whole.sides) == 1 or fault.is_shown_by(prober.run(first, form)):
                return fault, form
            return f"the pipeline that is compared with fails, {shown.text}"
        seen.append(shown.text)
        if question.measures and not shown.error:
            form = prober.form(SLOW, is_alone=is_alone)
            # Two pipelines are timed by the script that looks for the fault, too.
            before = [shown] if shown.ratio is not None else [prober.run(whole, form)]
            shown = min((*before, prober.run(whole, form)), key=lambda each: each.ratio or 0.0)
            if slow := slowdown_of(shown, ratio=question.ratio):
                return slow, form
            seen.append(shown.text)
    return "; ".join(dict.fromkeys(seen))


class _Reducer:
    """Makes what a script is run on smaller as long as the script shows the fault."""

    def __init__(
        self, prober: Prober, fault: Fault, form: ScriptForm, *, progress: Callable[[str, int, int], None]
    ) -> None:
        self.prober, self.fault, self.form, self._progress = prober, fault, form, progress
        self._known: dict[Probed, bool] = {}
        self._smallest: Probed | None = None
        self.is_interrupted = False
        self.last: Shown = fault.first

    def shows(self, probed: Probed) -> bool:
        """Return whether the fault is shown; nothing is, once the time is over."""
        if probed not in self._known and not self.prober.time_limit.is_over:
            text = f"{len(probed.nodes)} nodes, {sum(map(len, probed.sides))} passes"
            self._progress(text, self.prober.runs, 0)
            # A time that is measured once may be an accident.
            runs = 2 if self.fault.kind == SLOW else 1
            self._known[probed] = all(self._is_shown(probed) for _ in range(runs))
            self._smallest = probed if self._known[probed] else self._smallest
        return self._known.get(probed, False)

    def _is_shown(self, probed: Probed) -> bool:
        shown = self.prober.run(probed, self.form)
        if is_shown := self.fault.is_shown_by(shown):
            self.last = shown
        return is_shown

    def reduce(self, whole: Probed, parts: OnnxParts) -> Probed:
        """Return the smallest that shows the fault, as far as it is found before an interruption."""
        try:
            best = self._reduced(whole, parts)
        except KeyboardInterrupt:
            self.is_interrupted, best = True, self._smallest or whole
        if self.is_cut_short:
            # Whether the fault needs the weights is not known then, and nobody has agreed to share them.
            best = replace(best, original=best.original & random_weights(parts, keeps_numbers=True))
        return best

    @property
    def is_cut_short(self) -> bool:
        """True if a smaller network may exist."""
        return self.is_interrupted or self.prober.time_limit.is_over

    def _reduced(self, whole: Probed, parts: OnnxParts) -> Probed:
        best = self._with_random_weights(whole, parts)
        best = self._with_fewer_nodes(best)
        fewer = self._with_fewer_passes(best)
        best = self._with_fewer_nodes(fewer) if fewer != best else best
        return self._with_smaller_sizes(self._with_fewest_values(best, parts))

    def _with_random_weights(self, probed: Probed, parts: OnnxParts) -> Probed:
        changed = replace(probed, original=random_weights(parts, keeps_numbers=True))
        return changed if self.shows(changed) else probed

    def _with_fewer_nodes(self, probed: Probed) -> Probed:
        nodes = fewest(probed.nodes, lambda some: self.shows(replace(probed, nodes=tuple(some))))
        return replace(probed, nodes=tuple(nodes))

    def _with_fewer_passes(self, probed: Probed) -> Probed:
        for place, side in enumerate(probed.sides):

            def with_side(steps: Sequence[PassSpec], place: int = place, probed: Probed = probed) -> Probed:
                return replace(probed, sides=(*probed.sides[:place], tuple(steps), *probed.sides[place + 1 :]))

            if place == 0 or self.fault.kind not in (CRASH, REFUSAL):
                steps = fewest(side, lambda some: self.shows(with_side(some)), least=0)
                probed = with_side(steps)
        return probed

    def _with_smaller_sizes(self, probed: Probed) -> Probed:
        """Make each size as small as it may be by itself, the largest first."""
        for size in sizes_of(self.prober.part(probed).model):
            smaller = (new for new in (2, LEAST_SIZE, size // 4, size // 2) if new < size)
            tried = (replace(probed, sizes=(*probed.sizes, (size, new))) for new in dict.fromkeys(smaller))
            probed = next(filter(self.shows, tried), probed)
        return probed

    def _with_fewest_values(self, probed: Probed, parts: OnnxParts) -> Probed:
        """Keep the values of structure, and of those weights that the fault needs."""
        structure = random_weights(parts, keeps_numbers=False)
        used = parts.part(probed.nodes, original=()).weights.values()
        candidates = sorted({*used} & {*probed.original} - structure)
        kept: Sequence[str] = candidates
        if candidates and not self.shows(replace(probed, original=structure)):
            kept = fewest(candidates, lambda some: self.shows(replace(probed, original=structure | {*some})), least=0)
        return replace(probed, original=structure | {*kept} if kept else structure)


def _write(
    reducer: _Reducer, whole: Probed, smallest: Probed, *, session: Session, parts: OnnxParts, folder: Path
) -> dict[str, Any]:
    """Write the network, its script and the report, and run the script once more where it lies."""
    prober, form, limit = reducer.prober, reducer.form, reducer.prober.time_limit
    is_cut_short = reducer.is_cut_short
    title = f"{reducer.fault.kind.capitalize()} of TVM {session.toolchain.tvm_version}: {reducer.last.text}."
    shown = prober.run(smallest, form, folder=folder, seen=title)
    part = prober.part(smallest)
    own = [file.name for file in prober.own_modules(smallest)]
    reason = UNKNOWN if is_cut_short else NEEDED
    report = {
        "kind": reducer.fault.kind,
        "seen": reducer.fault.first.text,
        "shown": shown.text,
        "confirmed": reducer.fault.is_shown_by(shown),
        "needs": form.needs,
        "before": _sizes(prober.part(whole), whole),
        "after": _sizes(part, smallest),
        "pipelines": [", ".join(map(str, side)) for side in smallest.sides],
        "kept": {
            new: {"shape": list(parts.weights[name].dims), "reason": parts.reasons.get(name, reason)}
            for new, name in part.weights.items()
            if name in smallest.original
        },
        "kept_attributes": part.attributes,
        "foreign_operators": parts.foreign_names(smallest.nodes),
        "files": [NETWORK, SCRIPT, *own],
        "runs": prober.runs,
        "seconds": round(limit.clock_s(), 1),
        "time_is_over": is_cut_short,
    }
    write_json(folder / REPORT, report)
    return {**report, "folder": str(folder)}


def _sizes(part: Part, probed: Probed) -> dict[str, int]:
    return {"nodes": part.nodes, "parameters": part.parameters, "passes": sum(map(len, probed.sides))}
