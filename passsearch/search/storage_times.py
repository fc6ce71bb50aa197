"""Times of the kernels of a network whose weights are stored in fewer bits, each in its place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from passsearch.catalog import CatalogEntry
from passsearch.core import FLOAT32, Failure, Json, PassSpec, Pipeline
from passsearch.search.composition import Composer
from passsearch.search.composition_records import Cost
from passsearch.search.precision_request import ACTIVATIONS


@dataclass(frozen=True)
class KernelTime:
    """Seconds of one call of a kernel, and its digest."""

    digest: str
    seconds: float


@dataclass(frozen=True)
class TimedStorage:
    """The kernels of a network with one storage for all weights.

    Attributes:
        arguments: Arguments of the pass that narrows weights; empty for float32.
        kernels: Times by name of the kernel.
        total_s: Seconds of all calls of an inference.
    """

    arguments: Mapping[str, Json]
    kernels: Mapping[str, KernelTime]
    total_s: float

    @property
    def text_parts(self) -> dict[str, Any]:
        """The storage in the form of results; 0 is the default group of ``int8``, and 32 that of ``int4``."""
        storage = str(self.arguments["storage"])
        group = self.arguments.get("group", 32 if storage == "int4" else 0)
        return {"storage": storage, "group": group, "activations": self.arguments.get(ACTIVATIONS, FLOAT32)}


class StorageTimes(Composer):
    """Times a pipeline with every storage of weights, by the table of a composer."""

    are_outputs_judged = False

    def plain(self, step: PassSpec) -> PassSpec:
        """Return a pass without what it does to single kernels."""
        return self._scheduling[step.name].kernel_schedule(step) if step.name in self._scheduling else step

    def time(self, begin: Pipeline, entry: CatalogEntry) -> tuple[TimedStorage, list[TimedStorage]] | Failure:
        """Return the times in float32, and in every storage that a pass offers and the compiler takes.

        Raises:
            OutOfTime: Not all kernels could be timed.
        """
        costs: dict[Pipeline, tuple[Mapping[str, Json], Cost]] = {}
        states: set[str] = set()
        steps = [PassSpec.of(entry.name), *(step for step in entry.variants() if step.argument_values)]
        for step in steps:
            arguments = step.argument_values
            pipeline = insert(begin, step, entry) if arguments else begin
            state = self._profiler.reach(pipeline)
            cost = state if isinstance(state, Failure) else self.cost(pipeline)
            if isinstance(cost, Failure):
                if pipeline == begin:
                    return cost
                continue
            # Some arguments mean the same: a storage without scales has no groups.
            if state not in states:
                costs[self._schedule(pipeline, cost)] = (arguments, cost)
                states.add(str(state))
        self._time_in_places(*costs)
        self._times.are_corrected = True
        timed = [self._timed(pipeline, arguments) for pipeline, (arguments, _) in costs.items()]
        found = [each for each in timed if not isinstance(each, Failure)]
        return (found[0], found[1:]) if len(found) == len(timed) else next(x for x in timed if isinstance(x, Failure))

    def _timed(self, pipeline: Pipeline, arguments: Mapping[str, Json]) -> TimedStorage | Failure:
        network, _ = self._kernels(pipeline)
        cost = self.cost(pipeline)
        if isinstance(network, Failure) or isinstance(cost, Failure):
            return network if isinstance(network, Failure) else cost  # type: ignore[return-value]
        kernels = {each.name: KernelTime(each.digest, cost.seconds[each.digest]) for each in network.kernels}
        return TimedStorage(arguments, kernels, cost.total_s)

    def scheduled(self, begin: Pipeline, step: PassSpec, entry: CatalogEntry) -> Pipeline:
        """Return a pipeline with a pass that narrows weights, and with the fastest schedules in the table."""
        pipeline = insert(begin, step, entry)
        cost = self.cost(pipeline)
        return pipeline if isinstance(cost, Failure) else self._schedule(pipeline, cost)


def insert(pipeline: Pipeline, step: PassSpec, entry: CatalogEntry) -> Pipeline:
    """Return a pipeline with a pass at its place, in place of the same pass with other arguments."""
    place = entry.place_in(pipeline)
    assert place is not None
    after = pipeline.passes[place:]
    return Pipeline((*pipeline.passes[:place], step, *(after[1:] if after[0].name == entry.name else after)))
