"""Gains that earlier runs on a network have read, by which a search orders what it tries first."""

import math
from collections.abc import Mapping, Sequence

from passsearch.core import BuildOptions, Candidate, Pipeline
from passsearch.evaluate.apply import Applier
from passsearch.evaluate.build import Builder
from passsearch.evaluate.facts import FactStore
from passsearch.evaluate.records import BUSY, Built
from passsearch.evaluate.timed_records import Conditions
from passsearch.measure import is_busy
from passsearch.store import Fact

MOST_FOUND = 2
"""Number of candidates without a name, found by samplers of earlier runs, that a search begins with."""


class GainMemory:
    """Remembers the gain of each candidate over the baseline, a ratio without a unit.

    It says what to try first. No result shows it, and no plan or verdict rests on it: whatever is tried is built and
    timed anew.
    """

    def __init__(self, facts: FactStore, applier: Applier, builder: Builder, *, is_new: bool) -> None:
        """Read and write gains among the facts of a run; ``is_new`` is False for one that is continued."""
        self._facts, self._applier, self._builder = facts, applier, builder
        # A run of an earlier version began in another order, and new facts among its old ones would stop its clock.
        self._is_used = is_new or facts.recall("first", "") is not None

    def record(self, built: Built, candidate: Candidate, gain: float, conditions: Conditions) -> None:
        """Leave a gain to later runs, unless nothing was timed, or while others used the machine."""
        if not self._is_used or "not_timed" in conditions:
            return
        fact = {"gain": gain, "name": candidate.name, "pipeline": str(candidate.pipeline)}
        fact |= {"build": candidate.build.to_json(), **({BUSY: True} if is_busy(conditions) else {})}
        self._facts.recall_or_record("gain", built.key, lambda: fact)

    def order(
        self, first: Sequence[Candidate], recommended: Sequence[Candidate], *, allowed: frozenset[str]
    ) -> list[Candidate]:
        """Return the candidates that a search evaluates first, those with a remembered gain before the others.

        Before all is what is recommended without a search, if its gain is not known.

        Args:
            first: The candidates in their usual order.
            recommended: Those that are recommended, in this order; they come first.
            allowed: Names of the passes that candidates of earlier searches may have.
        """
        if not self._is_used:
            return [*first]
        # Recorded, so that a later start of this run, to which its own gains are known too, begins alike.
        order = [_text(each) for each in recommended if each in first]
        fact = self._facts.recall_or_record(
            "first", "", lambda: {**self._remembered(first, allowed=allowed), "recommended": order}
        )
        found = [
            Candidate(Pipeline.parse(row["pipeline"]), BuildOptions.from_json(row["build"])) for row in fact["found"]
        ]
        # A run of an earlier version began in another order.
        gains, places = fact["gains"], {text: place for place, text in enumerate(fact.get("recommended", ()))}
        # Those that gained something, then the unknown ones, then the others.
        named = sorted(first, key=lambda each: (-gains.get(_text(each), 1.0), places.get(_text(each), math.inf)))
        lead = [each for each in named if places.get(_text(each)) == 0 and _text(each) not in gains]
        return [*lead, *found, *(each for each in named if each not in lead)]

    def _remembered(self, first: Sequence[Candidate], *, allowed: frozenset[str]) -> Fact:
        gains = self._facts.remembered("gain")
        keys = {_text(candidate): self._key(candidate) for candidate in first} if gains else {}
        known = {text: gains[key]["gain"] for text, key in keys.items() if key in gains}
        others = [fact for key, fact in gains.items() if key not in keys.values() and _may_lead(fact, allowed)]
        found = sorted(others, key=lambda fact: -fact["gain"])[:MOST_FOUND]
        best = max([1.0, *known.values()])  # the baseline gains 1
        return {
            "found": [{name: fact[name] for name in ("pipeline", "build")} for fact in found if fact["gain"] > best],
            "gains": known,
        }

    def _key(self, candidate: Candidate) -> str | None:
        """Return the key of a candidate's build; ``None`` where its state is not known yet."""
        state = self._applier.known_state(candidate.pipeline)
        return None if state is None else self._builder.key(state, candidate.build)


def _may_lead(fact: Mapping[str, object], allowed: frozenset[str]) -> bool:
    """Return whether a candidate was found by a sampler, of passes that this search has too."""
    names = {step.name for step in Pipeline.parse(str(fact["pipeline"])).passes}
    return not fact["name"] and bool(names) and names <= allowed


def _text(candidate: Candidate) -> str:
    return f"{candidate.pipeline}|{candidate.build.key}"
