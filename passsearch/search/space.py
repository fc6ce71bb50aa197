"""Selection and order of passes as a fixed number of keys, so that any Optuna sampler can search them.

Every slot (a pass, or one of its repetitions) has a choice, ``off`` or one of the pass's variants, and a rank in
[0, 1]. The slots that are not off, sorted by rank, are the sequence (random keys: Bean, Genetic algorithms and random
keys for sequencing and optimization, ORSA Journal on Computing 6(2), 1994).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from passsearch.catalog import Catalog, CatalogEntry, drop_conflicts
from passsearch.core import BuildOptions, Candidate, PassSpec, Pipeline

OFF = "off"
BUILDS = (BuildOptions(), BuildOptions(opt_level=3))
"""Mandatory lowering only, or the compiler's whole own pipeline after the explicit one; see ``Dialect.builds``."""

Keys: TypeAlias = Mapping[str, str | int | float]
"""The value that a sampler chose for each key of ``distributions``."""


@dataclass(frozen=True)
class Space:
    """The sequences and build options that one search draws from.

    Attributes:
        catalog: Catalog of the dialect; it states the prerequisites of each pass.
        entries: Candidate passes.
        features: Features of the network; some prerequisites hold only for networks with a certain feature.
        builds: Builds after a sequence, each named by its opt level.
    """

    catalog: Catalog
    entries: tuple[CatalogEntry, ...]
    features: frozenset[str]
    builds: tuple[BuildOptions, ...] = BUILDS

    @property
    def steps(self) -> tuple[PassSpec, ...]:
        """Every pass with every choice of arguments."""
        return tuple(spec for entry in self.entries for spec in entry.variants())

    @property
    def names(self) -> frozenset[str]:
        """Names of all passes."""
        return frozenset(entry.name for entry in self.entries)

    @property
    def unbounded(self) -> tuple[str, ...]:
        """Names of the passes with which the space may never close."""
        return tuple(entry.name for entry in self.entries if entry.unbounded)

    @property
    def bounded(self) -> tuple[PassSpec, ...]:
        """The steps of all passes that are not unbounded."""
        return tuple(step for step in self.steps if step.name not in self.unbounded)

    def distributions(self) -> dict[str, BaseDistribution]:
        """Return the keys that an Optuna sampler chooses."""
        keys: dict[str, BaseDistribution] = {"build:opt_level": CategoricalDistribution(levels(self.builds))}
        for entry, slot in self._slots():
            choices = (OFF, *(str(spec) for spec in entry.variants()))
            keys[f"use:{slot}"] = CategoricalDistribution(choices)
            keys[f"rank:{slot}"] = FloatDistribution(0, 1)
        return keys

    def decode(self, keys: Keys) -> Candidate:
        """Return the candidate for the values of all keys, with prerequisites inserted and without conflicts."""
        variants = {str(spec): spec for spec in self.steps}
        used = [slot for _, slot in self._slots() if keys[f"use:{slot}"] != OFF]
        ordered = sorted(used, key=lambda slot: float(keys[f"rank:{slot}"]))
        selected = Pipeline(tuple(variants[str(keys[f"use:{slot}"])] for slot in ordered))
        proposed = drop_conflicts(selected, self.catalog, features=self.features)
        return Candidate(proposed, build_at(int(keys["build:opt_level"]), self.builds))

    def encode(self, candidate: Candidate) -> Keys | None:
        """Return the keys that decode to a candidate; ``None`` if it lies outside this space."""
        if candidate.build not in self.builds:
            return None
        free = {slot: {str(spec) for spec in entry.variants()} for entry, slot in self._slots()}
        keys: dict[str, str | int | float] = {"build:opt_level": candidate.build.opt_level}
        length = max(len(candidate.pipeline), 1)
        for position, step in enumerate(candidate.pipeline.passes):
            slot = next((slot for slot, texts in free.items() if str(step) in texts), None)
            if slot is None:
                return None
            del free[slot]
            # The middle of equal parts of [0, 1]: as far as possible from both neighbours, so that a sampler that
            # changes one rank a little keeps the order.
            keys |= {f"use:{slot}": str(step), f"rank:{slot}": (position + 0.5) / length}
        for slot in free:
            keys |= {f"use:{slot}": OFF, f"rank:{slot}": 0.5}
        # `decode` inserts prerequisites and drops conflicts, so a pipeline that lacks or has them has no keys.
        return keys if self.decode(keys).pipeline == candidate.pipeline else None

    def _slots(self) -> list[tuple[CatalogEntry, str]]:
        return [
            (entry, f"{entry.name}#{turn}" if turn else entry.name)
            for entry in self.entries
            for turn in range(entry.repeat)
        ]


def levels(builds: Iterable[BuildOptions]) -> tuple[int, ...]:
    """Return the opt levels of builds."""
    return tuple(build.opt_level for build in builds)


def build_at(level: int, builds: Iterable[BuildOptions]) -> BuildOptions:
    """Return the options among ``builds`` with this opt level, or default options of that level if there are none."""
    return next((build for build in builds if build.opt_level == level), BuildOptions(opt_level=level))
