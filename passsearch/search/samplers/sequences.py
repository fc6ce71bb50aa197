"""Keys of a ``Space`` as the sequence they stand for, which is what crossover and edits work on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution

Distributions: TypeAlias = Mapping[str, BaseDistribution]
Value: TypeAlias = str | int | float
OFF = "off"


@dataclass(frozen=True)
class Genes:
    """One candidate.

    Attributes:
        steps: Chosen slots in order, each with its variant.
        options: All other keys.
    """

    steps: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, Value], ...]

    @classmethod
    def of(cls, keys: Mapping[str, Value]) -> "Genes":
        """Read keys, as a trial's parameters hold them."""
        slots = [name.partition(":")[2] for name in keys if name.startswith("use:")]
        chosen = [slot for slot in slots if keys[f"use:{slot}"] != OFF]
        ordered = sorted(chosen, key=lambda slot: float(keys[f"rank:{slot}"]))
        options = tuple((name, value) for name, value in keys.items() if not name.startswith(("use:", "rank:")))
        return cls(tuple((slot, str(keys[f"use:{slot}"])) for slot in ordered), options)

    def keys(self, distributions: Distributions) -> dict[str, Value]:
        """The inverse: ranks are spread evenly."""
        keys: dict[str, Value] = dict(self.options)
        places = {slot: place for place, (slot, _) in enumerate(self.steps)}
        variants = dict(self.steps)
        for name in distributions:
            kind, _, slot = name.partition(":")
            if kind == "use":
                keys[name] = variants.get(slot, OFF)
            elif kind == "rank":
                keys[name] = (places[slot] + 0.5) / len(places) if slot in places else 0.5
        return keys


def edited(genes: Genes, distributions: Distributions, *, rng: np.random.Generator) -> Genes:
    """One random edit: insert, delete, swap or move a pass, or change an option."""
    edits = [_insert, _delete, _swap, _move, _option]
    for place in rng.permutation(len(edits)):
        changed: Genes | None = edits[place](genes, distributions, rng)
        if changed is not None:
            return changed
    return genes


def _insert(genes: Genes, distributions: Distributions, rng: np.random.Generator) -> Genes | None:
    present = {slot for slot, _ in genes.steps}
    absent = [
        (name, kind)
        for name, kind in distributions.items()
        if name.startswith("use:") and name.partition(":")[2] not in present
    ]
    if not absent:
        return None
    name, kind = absent[rng.integers(len(absent))]
    assert isinstance(kind, CategoricalDistribution)
    variants = [str(choice) for choice in kind.choices if choice != OFF]
    step = (name.partition(":")[2], variants[rng.integers(len(variants))])
    place = int(rng.integers(len(genes.steps) + 1))
    return Genes((*genes.steps[:place], step, *genes.steps[place:]), genes.options)


def _delete(genes: Genes, _: Distributions, rng: np.random.Generator) -> Genes | None:
    if not genes.steps:
        return None
    place = int(rng.integers(len(genes.steps)))
    return Genes(genes.steps[:place] + genes.steps[place + 1 :], genes.options)


def _swap(genes: Genes, _: Distributions, rng: np.random.Generator) -> Genes | None:
    if len(genes.steps) < 2:
        return None
    steps = list(genes.steps)
    left, right = rng.choice(len(steps), 2, replace=False)
    steps[left], steps[right] = steps[right], steps[left]
    return Genes(tuple(steps), genes.options)


def _move(genes: Genes, _: Distributions, rng: np.random.Generator) -> Genes | None:
    if len(genes.steps) < 3:
        return None
    steps = list(genes.steps)
    source, target = rng.choice(len(steps), 2, replace=False)
    steps.insert(int(target), steps.pop(int(source)))
    return Genes(tuple(steps), genes.options)


def _option(genes: Genes, distributions: Distributions, rng: np.random.Generator) -> Genes | None:
    options = dict(genes.options)
    name = list(options)[rng.integers(len(options))]
    kind = distributions[name]
    assert isinstance(kind, CategoricalDistribution)
    others = [choice for choice in kind.choices if choice != options[name]]
    if not others:
        return None
    options[name] = others[rng.integers(len(others))]  # type: ignore[assignment]
    return Genes(genes.steps, tuple(options.items()))


def crossed(
    left: Sequence[tuple[str, str]], right: Sequence[tuple[str, str]], *, rng: np.random.Generator
) -> tuple[tuple[str, str], ...]:
    """Order crossover: a part of the left where it stands, around it the rest of the right in its order.

    Source: Davis, Applying adaptive algorithms to epistatic domains, IJCAI 1985; here for sequences of any length.
    """
    first, last = sorted(rng.integers(len(left) + 1, size=2))
    part = tuple(left[first:last])
    taken = {slot for slot, _ in part}
    rest = tuple(step for step in right if step[0] not in taken)
    place = min(int(first), len(rest))
    return (*rest[:place], *part, *rest[place:])
