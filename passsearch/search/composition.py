"""Gives every kernel the arguments that it runs fastest with, from a few builds of the whole network.

Some passes take arguments for single kernels (``CatalogEntry.kernel_parameter``). With ``V`` settings of such a pass,
``V`` builds tell the time of every kernel under every setting, and from these the best of all ``V`` to the power of
``K`` choices for ``K`` kernels follows: a kernel's time hardly depends on how the others are scheduled. The composed
network is then built, verified and timed like any other candidate.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from passsearch.catalog import CatalogEntry
from passsearch.core import Json, PassSpec, Pipeline
from passsearch.measure import KernelTimes

COMPOSED = "composed"
"""Name of a candidate whose kernels were chosen one by one."""

LEAST_GAIN = 0.02
"""Share of a kernel's time that another setting must save; smaller differences are noise."""


@dataclass(frozen=True)
class Composition:
    """The fastest known setting of every kernel.

    Attributes:
        pipeline: The pipeline with the settings as arguments.
        kernels: Number of kernels.
        settings: Number of settings that each of them was timed with.
        predicted_gain: Time of the kernels under the best single setting, as a multiple of their time when composed.
    """

    pipeline: Pipeline
    kernels: int
    settings: int
    predicted_gain: float

    @property
    def combinations(self) -> int:
        """Number of choices that the times decide between."""
        return int(self.settings**self.kernels)


def pipelines_to_compose(
    pipeline: Pipeline, entries: Sequence[CatalogEntry]
) -> tuple[CatalogEntry, tuple[Pipeline, ...]] | None:
    """Return the pass that takes arguments for single kernels, and the pipeline with each of its settings.

    Returns:
        The pipelines in the order of the catalog's settings; ``None`` if no pass of the pipeline takes such arguments.
    """
    adjustable = {entry.name: entry for entry in entries if entry.kernel_parameter}
    place = next((place for place, step in enumerate(pipeline.passes) if step.name in adjustable), None)
    if place is None:
        return None
    entry = adjustable[pipeline.passes[place].name]
    return entry, tuple(_replace(pipeline, place, step) for step in _settings(pipeline.passes[place], entry))


def _settings(step: PassSpec, entry: CatalogEntry) -> Iterator[PassSpec]:
    """Yield the pass with each setting, as the catalog writes it: without arguments that are defaults."""
    assert entry.kernel_parameter
    kept = {name: value for name, value in step.argument_values.items() if name != entry.kernel_parameter.name}
    defaults = {parameter.name: parameter.default for parameter in entry.parameters}
    for setting in entry.kernel_parameter.per_kernel:
        arguments = {**kept, **setting}
        yield PassSpec.of(entry.name, **{name: value for name, value in arguments.items() if value != defaults[name]})


def compose(entry: CatalogEntry, timed: Mapping[Pipeline, KernelTimes]) -> Composition:
    """Return the pipeline that gives each kernel its fastest setting.

    Args:
        entry: The pass whose arguments differ.
        timed: Times of the kernels by pipeline, from ``pipelines_to_compose``.
    """
    assert entry.kernel_parameter
    best = min(timed, key=lambda pipeline: sum(timed[pipeline].values()))
    place = next(place for place, step in enumerate(best.passes) if step.name == entry.name)
    base = timed[best]
    # Only kernels that all of the builds have can be compared.
    names = [name for name in base if all(name in times for times in timed.values())]
    settings: dict[str, Json] = {}
    composed_s = sum(base.values())
    for name in sorted(names):
        fastest = min(timed, key=lambda pipeline: timed[pipeline][name])
        saved_s = base[name] - timed[fastest][name]
        if saved_s > LEAST_GAIN * base[name]:
            settings[name] = _difference(fastest.passes[place], best.passes[place], entry)
            composed_s -= saved_s
    step = best.passes[place]
    if settings:
        step = PassSpec.of(step.name, **step.argument_values, **{entry.kernel_parameter.name: settings})
    return Composition(_replace(best, place, step), len(names), len(timed), sum(base.values()) / composed_s)


def _difference(step: PassSpec, base: PassSpec, entry: CatalogEntry) -> dict[str, Json]:
    """Return the arguments of a pass that differ from those of another use of the pass."""
    values, others = ({p.name: p.default for p in entry.parameters} | use.argument_values for use in (step, base))
    return {name: value for name, value in values.items() if value != others[name]}


def _replace(pipeline: Pipeline, place: int, step: PassSpec) -> Pipeline:
    return Pipeline((*pipeline.passes[:place], step, *pipeline.passes[place + 1 :]))
