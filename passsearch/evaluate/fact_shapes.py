"""The content that a fact of each kind must have; a line of a log with a right checksum may have another one."""

import math
from collections.abc import Callable, Mapping

from passsearch.core import BuildOptions, Failure, Pipeline
from passsearch.dialects.contract import Kernel
from passsearch.errors import PassSearchError
from passsearch.evaluate.records import BuildFact, Network
from passsearch.evaluate.timed_records import CandidateSamples, Consumed, PlaceTimes, TimedArtifacts, TimedSamples
from passsearch.store import Fact

TEXT, NUMBER, LIST, MAPPING = "text", "number", "list", "mapping"

SOURCE = {"runtime": TEXT, "reason": TEXT, "outputs": LIST, "seconds": NUMBER}
"""Keys of a ``SourceReference``."""

KEYS: Mapping[str, Mapping[str, str]] = {
    "load": {"state": TEXT, "inputs": MAPPING, "summary": MAPPING},
    "edge": {"state": TEXT, "seconds": NUMBER},
    "applied": {"state": TEXT, "seconds": NUMBER},
    "census": {"counts": MAPPING},
    "hash": {"hash": TEXT},
    "build": {"digest": TEXT, "seconds": NUMBER, "bytes": NUMBER},
    "samples": {"samples": LIST, "conditions": MAPPING},
    "gain": {"gain": NUMBER, "name": TEXT, "pipeline": TEXT, "build": MAPPING},
    "exploring": {"seconds": NUMBER},
    "kernels": {"kernels": LIST, "constant_bytes": NUMBER},
    "regions": {"regions": LIST},
    "run": {"number": TEXT},
    "source": SOURCE,
    "import": SOURCE,
    "timed": {"processes": LIST, "conditions": LIST, "wall_s": NUMBER},
    "fresh": {"digest": TEXT, "apply_s": NUMBER, "seconds": NUMBER, "wall_s": NUMBER},
    "consumed": {"consumed": LIST, "wall_s": NUMBER},
    "first": {"found": LIST, "gains": MAPPING},
    "lost nan": {"lost": NUMBER},
    "profile": {"processes": LIST},
    "kernels alone": {"kernels": MAPPING},
    "rounded": {"layers": LIST, "compared": LIST},
}
"""Keys of facts that are no failures, by kind, with what their values must be."""


def is_fact(kind: str, fact: Fact) -> bool:
    """Return whether a fact has the content of its kind; a fact without it counts as missing."""
    try:
        if "failure" in fact:
            Failure.from_json(fact["failure"])
            return True
        if not all(_is(fact.get(key), what) for key, what in KEYS.get(kind, {}).items()):
            return False
        if kind in _READERS:
            _READERS[kind](fact)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, AssertionError, PassSearchError):
        return False
    return True


def _is(value: object, what: str) -> bool:
    if what == NUMBER:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and 0 <= value < math.inf  # type: ignore[operator]
    return isinstance(value, {TEXT: str, LIST: list, MAPPING: Mapping}[what])


def _read_kernels(fact: Fact) -> None:
    for kernel in fact["kernels"]:
        Kernel(**kernel)


def _read_regions(fact: Fact) -> None:
    if not all(_is(region[name], TEXT) for region in fact["regions"] for name in ("key", "like")):
        raise ValueError("regions have names")


def _read_gain(fact: Fact) -> None:
    Pipeline.parse(fact["pipeline"])
    BuildOptions.from_json(fact["build"])


def _read_first(fact: Fact) -> None:
    for row in fact["found"]:
        _read_gain(row)
    if not all(_is(gain, NUMBER) for gain in fact["gains"].values()):
        raise ValueError("gains are numbers")
    if not all(_is(text, TEXT) for text in fact.get("recommended", ())):
        raise ValueError("candidates are texts")


def _read_samples(fact: Fact) -> None:
    samples = CandidateSamples.from_fact(fact)
    if not all(_is(value, NUMBER) for row in (samples.reference, samples.candidate) for value in row):
        raise ValueError("samples are numbers")


def _read_variant(fact: Fact) -> None:
    if "seconds" in fact:
        if not _is(fact["seconds"], NUMBER) or not _is(fact.get("reference_s") or 0.0, NUMBER):
            raise ValueError("seconds are numbers")
    elif not isinstance(fact["reason"], str):
        raise ValueError("a reason is a text")


_READERS: Mapping[str, Callable[[Fact], object]] = {
    "load": Network.from_fact,
    "build": BuildFact.from_fact,
    "samples": _read_samples,
    "gain": _read_gain,
    "kernels": _read_kernels,
    "regions": _read_regions,
    "variant": _read_variant,
    # The fact of a deterministic pass is a failure, see above.
    "steady": lambda fact: fact["failure"],
    "first": _read_first,
    "timed": lambda fact: TimedSamples.from_fact(fact, TimedArtifacts(None, ())),
    "consumed": Consumed.from_fact,
    "places": PlaceTimes.from_fact,
}
