"""A finished run as its report reads it: the result, and what the log says of the way to it."""

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from passsearch.core import BuildOptions, parse_json
from passsearch.errors import PassSearchError, UserError
from passsearch.results import Ablation, Candidate, RunResult
from passsearch.store import Fact, Log, read_ablation, read_result

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AppliedPass:
    """The effect of one pass on one state.

    Attributes:
        source: The state it was applied to.
        step: The pass.
        target: The state it led to; ``None`` if it failed.
    """

    source: str
    step: str
    target: str | None


@dataclass(frozen=True)
class RunRecord:
    """A run.

    Attributes:
        result: Its result.
        folder: The run folder.
        settings: The content of ``run.json``; empty if it cannot be read.
        built_s: Seconds from the start of the run to the first build, by state and build options.
        edges: Passes as they were applied, in that order.
        root: The network's state; empty if the log does not say.
        kernels: Seconds that every kernel takes in one inference, by name, by digest of the binary.
        ablation: Its ablation; ``None`` without one.
    """

    result: RunResult
    folder: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    built_s: Mapping[tuple[str, str], float] = field(default_factory=dict)
    edges: tuple[AppliedPass, ...] = ()
    root: str = ""
    kernels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    ablation: Ablation | None = None

    def build_time_s(self, candidate: Candidate) -> float | None:
        """Return the seconds after which a candidate was first built; ``None`` if the log does not say."""
        return self.built_s.get((str(candidate.state), BuildOptions.from_json(candidate.build.to_json()).key))


def read_run(folder: Path) -> RunRecord:
    """Read a run folder.

    Raises:
        UserError: There is no result, or it is damaged.
    """
    return read_record(read_result(folder), folder)


def read_record(document: Mapping[str, Any], folder: Path) -> RunRecord:
    """Return a result together with what else its folder holds; what is missing there stays empty."""
    facts = _facts(folder / "log.jsonl")
    loads = facts.get("load", [])
    return RunRecord(
        RunResult.from_json(document),
        folder,
        settings=_json_object(folder / "run.json") or {},
        built_s={_state_and_build(key): written_s for key, _, written_s in facts.get("build", [])},
        edges=tuple(_edges(facts.get("edge", []))),
        root=str(loads[0][1].get("state") or "") if loads else "",
        kernels=dict(_kernels(facts.get("places", []))),
        ablation=_ablation(folder),
    )


def _state_and_build(key: str) -> tuple[str, str]:
    """Split the key of a build."""
    state, _, build = key.partition("|")
    return state, build


def _facts(path: Path) -> dict[str, list[tuple[str, Fact, float]]]:
    """Return key, fact and time in seconds of the facts by kind; none if the log cannot be read."""
    by_kind: dict[str, list[tuple[str, Fact, float]]] = {}
    try:
        log = Log(path, writable=False)
        for (kind, key), written_s in log.times.items():
            fact = log.recall(kind, key)
            if isinstance(fact, Mapping) and _is_finite(written_s):
                by_kind.setdefault(kind, []).append((key, fact, written_s))
    except (OSError, ValueError, KeyError, TypeError, PassSearchError) as error:
        _log.warning("%s cannot be read, so the report lacks the history: %s", path, error)
        return {}
    return by_kind


def _edges(facts: list[tuple[str, Fact, float]]) -> Iterator[AppliedPass]:
    for key, fact, _ in facts:
        source, _, step = key.partition("|")
        target = fact.get("state")
        yield AppliedPass(source, step, target if isinstance(target, str) else None)


def _kernels(facts: list[tuple[str, Fact, float]]) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yield the digest of a binary and the times of its kernels; the last measurement of a binary counts."""
    for key, fact, _ in facts:
        for digest, seconds in zip(key.split("|"), fact.get("kernels") or [], strict=False):
            if isinstance(seconds, Mapping) and all(map(_is_finite, seconds.values())):
                yield digest, seconds


def _is_finite(value: object) -> bool:
    """Return whether a value is a number that an axis can have; JSON of others may have infinities."""
    return isinstance(value, int | float) and math.isfinite(value)


def _json_object(path: Path) -> Mapping[str, Any] | None:
    try:
        content = parse_json(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be read, so the report leaves it out: %s", path, error)
        return None
    return content if isinstance(content, Mapping) else None


def _ablation(folder: Path) -> Ablation | None:
    try:
        document = read_ablation(folder)
        return None if document is None else Ablation.from_json(document)
    except UserError as error:
        _log.warning("the report leaves the ablation out: %s", error)
        return None
