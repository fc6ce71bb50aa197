"""Decides per region and per kernel, by the times of kernels.

Some passes take arguments for single regions of a network (``CatalogEntry.regional_parameter``), some for single
kernels (``CatalogEntry.kernel_parameter``). The time of a network is predicted as the sum of the times of its kernels,
each of which is built and timed once. A decision on a region replaces some calls of kernels by others, so it saves the
same whatever is decided elsewhere, as long as no two decisions replace the same call. The best set of decisions is
therefore a packing problem, which is solved exactly, with the default schedule of every kernel. Then the kernels that
lose the most time get more schedules. A kernel alone finds other caches than in its network, so the composed network
is built and its kernels are timed in their places; where these times differ, they replace the others, and all is
decided again. Whole inferences of these networks, timed in the same processes, tell how much longer an inference takes
than its kernels. The result is built, verified and timed like any other candidate.
"""

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product

from passsearch.catalog import CatalogEntry
from passsearch.core import BuildOptions, Candidate, Failure, Interval, Json, PassSpec, Pipeline, TimeLimit
from passsearch.evaluate import KernelProfiler, NetworkKernels
from passsearch.measure import next_value_interval
from passsearch.search.composition_records import Composition, Cost, Decision
from passsearch.search.decision_choice import choose
from passsearch.search.kernel_times import KernelTimes, OutOfTime

COMPOSED = "composed"
"""Name of a candidate whose regions and kernels were decided on one by one."""

LEAST_GAIN = 0.02
"""Share of a kernel's time that another schedule must save; smaller differences are noise."""

LEAST_LOSS = 3e-3
"""Share of a network's time that a kernel must lose against the peak for more of its schedules to be timed."""

LEAST_SHARE = 1e-3
"""Share of a network's time that a decision on a region must save."""

MOST_CORRECTIONS = 2
"""Number of times that all is decided again by times of kernels in their places."""

CORRECTION_SHARE = 0.3
"""Share of the time left at the beginning of a composition that is kept to time kernels in their places."""

LEAST_PLACES_S = 5.0
"""Seconds in which a process starts and times the kernels of two networks in their places, roughly."""

OTHER_PIPELINE = 0.012
"""Standard deviation by which the overhead of a new pipeline differs from that of two others, as a share of the time.

Fitted to 60 pipelines of six networks (docs/evidence/relax.md): with it, intervals hold what they should.
"""

KERNELS_AT_ONCE = 8
"""Number of kernels that get more schedules before the clock is read again, where kernels are timed side by side."""

_log = logging.getLogger(__name__)


def has_kernel_schedules(pipeline: Pipeline, entries: Sequence[CatalogEntry]) -> bool:
    """Return True if a pass of the pipeline schedules single kernels."""
    names = {entry.name for entry in entries if entry.kernel_parameter}
    return any(step.name in names for step in pipeline.passes)


class Composer:
    """Composes one pipeline.

    Attributes:
        are_outputs_judged: False for a composer that times pipelines which are never a result.
    """

    are_outputs_judged = True

    def __init__(
        self,
        profiler: KernelProfiler,
        entries: Sequence[CatalogEntry],
        *,
        time_limit: TimeLimit,
        build: BuildOptions | None = None,
    ) -> None:
        """Prepare a composer.

        Args:
            profiler: Lists and times kernels.
            entries: Candidate passes.
            time_limit: Time limit of the search.
            build: Options by which composed networks are built.
        """
        self._profiler, self._time_limit, self._build = profiler, time_limit, build or BuildOptions()
        self._scheduling = {entry.name: entry for entry in entries if entry.kernel_parameter}
        self._regional = [entry for entry in entries if entry.regional_parameter]
        self._times = KernelTimes(profiler, left_s=self._left_for_kernels_s)
        self._later_s = self._kept_s = 0.0  # to keep for kernels in their places, and what is withheld now
        self._combinations = 0.0
        self._unused_s = 0.0  # gains that were left out as too small
        self._log_overheads: list[float] = []  # of whole inferences over the sums of their kernels, by process

    def compose(self, pipeline: Pipeline) -> Composition | Failure:
        """Return the best pipeline made of this one, which has a pass that schedules single kernels."""
        try:
            composition = self._compose(pipeline)
            return composition if isinstance(composition, Failure) else self._corrected(pipeline, composition)
        except OutOfTime:
            return Failure("timeout", "measure", "", "the search ended before all kernels were timed once")
        finally:
            self._profiler.stop_time_ahead()

    def _left_for_kernels_s(self) -> float:
        left_s = self._time_limit.left_s()
        return left_s if math.isinf(left_s) else left_s - self._kept_s

    @contextmanager
    def _keeping_time(self) -> Iterator[None]:
        """Leave time to time kernels in their places: times alone are not enough to choose by."""
        self._kept_s = self._later_s
        try:
            yield
        finally:
            self._kept_s = 0.0

    def _corrected(self, begin: Pipeline, composition: Composition) -> Composition:
        """Return the composition of schedules that are the fastest in their places.

        Args:
            begin: The pipeline it was made of.
            composition: The composition by the times of kernels alone.
        """
        timed = {begin}
        try:
            for _ in range(MOST_CORRECTIONS):
                if composition.pipeline in timed or self._left_for_kernels_s() < LEAST_PLACES_S:
                    break
                self._time_in_places(begin, composition.pipeline)
                timed.add(composition.pipeline)
                composition = self._composed_again(begin, composition)
            # A prediction for another place is good enough to try a schedule, and no reason to keep it.
            self._times.are_corrected = True
            return self._composed_again(begin, composition)
        except OutOfTime:
            _log.info("no time is left for kernels of other decisions on regions")
            return composition

    def _composed_again(self, begin: Pipeline, composition: Composition) -> Composition:
        """Return what is best by the times known now; the composition so far if that fails."""
        again = self._compose(begin)
        return composition if isinstance(again, Failure) else again

    def _time_in_places(self, *pipelines: Pipeline) -> None:
        """Time the kernels of pipelines in their networks."""
        candidates = [Candidate(pipeline, self._build) for pipeline in pipelines]
        times = self._profiler.in_places(
            candidates, deadline_s=self._left_for_kernels_s(), is_judged=self.are_outputs_judged
        )
        for pipeline, each in zip(pipelines, times, strict=False):
            network, step = self._kernels(pipeline)
            assert not isinstance(network, Failure)
            self._times.learn(network, partial(self._scheduling[step.name].kernel_schedule, step), each.kernels)
            kernels_s = math.fsum(each.kernels.values())
            self._log_overheads += [math.log(whole_s / kernels_s) for whole_s in each.whole_s]
            _log.info("kernels take %.3g s in their places", kernels_s)

    def _compose(self, pipeline: Pipeline) -> Composition | Failure:
        self._later_s = CORRECTION_SHARE * self._time_limit.left_s()
        begin, begin_pipeline = self.cost(pipeline), pipeline
        self._combinations = self._unused_s = 0.0
        if isinstance(begin, Failure):
            return begin
        decisions: list[Decision] = []
        # In the order of the pipeline: what a pass finds depends on the decisions before it.
        for entry in sorted(self._regional, key=lambda entry: entry.place_in(begin_pipeline) or 0):
            pipeline, made = self._decide_regions(pipeline, entry)
            decisions += made
        with self._keeping_time():
            self._tune(pipeline)
        cost = self.cost(pipeline)
        if isinstance(cost, Failure):
            return cost
        # Settings that make one schedule have one time, if they were timed together.
        self._combinations += sum(math.log10(len(set(self._times.alone[digest].values()))) for digest in cost.calls)
        composition = Composition(
            pipeline=self._schedule(pipeline, cost),
            begin_s=begin.default_s,
            predicted_s=cost.total_s,
            inference_s=self._inference_s(cost.total_s),
            bound_s=cost.total_s - self._unused_s - self._unused_schedules_s(cost),
            kernels=len(self._times.alone),
            variants=sum(map(len, self._times.alone.values())),
            combinations=self._combinations,
            decisions=tuple(decisions),
        )
        _log.info(
            "%d kernels in %d variants: %.3g s instead of %.3g s predicted",
            composition.kernels,
            composition.variants,
            composition.predicted_s,
            composition.begin_s,
        )
        return composition

    def _inference_s(self, kernels_s: float) -> tuple[float, Interval] | None:
        """Return the seconds of a whole inference whose kernels take that long."""
        if len(self._log_overheads) < 2:
            return None
        mean, interval = next_value_interval(self._log_overheads, other_deviation=OTHER_PIPELINE)
        value, low, high = (kernels_s * math.exp(each) for each in (mean, interval.low, interval.high))
        return value, Interval(low, high)

    def _unused_schedules_s(self, cost: Cost) -> float:
        """Return the seconds that other schedules would save by the table.

        They are faster by no more than the noise, or were not timed in their places, where others proved to be slower.
        """
        return cost.total_s - self._least_s(cost)

    def _least_s(self, cost: Cost) -> float:
        """Return the seconds of the kernels by the fastest schedules of the table, whether they are used or not."""
        predicted = self._times.predicted
        return math.fsum(number * min(predicted(digest).values()) for digest, number in cost.calls.items())

    def cost(self, pipeline: Pipeline) -> Cost | Failure:
        """Return the predicted time of a pipeline, which fails if a kernel has no schedule that runs.

        Raises:
            OutOfTime: Not all kernels could be timed.
        """
        network, step = self._kernels(pipeline)
        if isinstance(network, Failure):
            return network
        entry = self._scheduling[step.name]
        calls: defaultdict[str, float] = defaultdict(float)
        seconds, schedules, default_s = {}, {}, 0.0
        plain = entry.kernel_schedule(step)
        self._times.take_ahead(network, network.kernels, [plain])
        for kernel in network.kernels:
            own = entry.kernel_schedule(step, kernel.name)
            # Others are timed in turns with the plain schedule, so one of its own has to be, too.
            if not self._times.take(network, kernel, list(dict.fromkeys([plain, own]))):
                failure = self._times.failures[kernel.digest]
                return replace(failure, reason=f"no schedule of kernel `{kernel.name}` runs: {failure.reason}")
            times = self._times.usable(kernel.digest)
            fastest = _fastest(times, own)
            calls[kernel.digest] += kernel.calls
            seconds[kernel.digest], schedules[kernel.name] = times[fastest], fastest
            default_s += kernel.calls * times.get(own, times[fastest])
        return Cost(calls, seconds, schedules, default_s)

    def _scheduling_place(self, pipeline: Pipeline) -> int:
        """Return the place of the pass that schedules kernels."""
        return next(place for place, step in enumerate(pipeline.passes) if step.name in self._scheduling)

    def _kernels(self, pipeline: Pipeline) -> tuple[NetworkKernels | Failure, PassSpec]:
        """Return the kernels of a pipeline before the pass that schedules them, and this pass."""
        place = self._scheduling_place(pipeline)
        state = self._profiler.reach(Pipeline(pipeline.passes[:place]))
        network = state if isinstance(state, Failure) else self._profiler.kernels(state)
        if not isinstance(network, Failure) and not network.kernels:
            network = Failure("compile_error", "build", pipeline.passes[place].name, "the network has no kernels")
        return network, pipeline.passes[place]

    def _tune(self, pipeline: Pipeline) -> None:
        """Time more schedules of the kernels that lose the most time against the fastest arithmetic of any kernel."""
        network, step = self._kernels(pipeline)
        if isinstance(network, Failure):
            return
        steps = list(self._steps(step))
        alone = self._times.alone
        timed = [kernel for kernel in network.kernels if alone[kernel.digest]]
        seconds = {kernel.digest: min(alone[kernel.digest].values()) for kernel in timed}
        peak = max((kernel.operations / seconds[kernel.digest] for kernel in timed), default=0.0)
        lost_s = {
            kernel: kernel.calls * (seconds[kernel.digest] - kernel.operations / peak)
            for kernel in timed
            if kernel.operations  # only sums of products are tiled or have several rules
        }
        total_s = math.fsum(kernel.calls * seconds[kernel.digest] for kernel in timed)
        losing = sorted(
            (each for each in lost_s if lost_s[each] >= LEAST_LOSS * total_s), key=lambda each: -lost_s[each]
        )
        for begin in range(0, len(losing), KERNELS_AT_ONCE):
            part = losing[begin : begin + KERNELS_AT_ONCE]
            self._times.take_ahead(network, part, steps)
            for kernel in part:
                self._times.take(network, kernel, steps)

    def _steps(self, step: PassSpec) -> Iterator[PassSpec]:
        """Yield the pass with every combination of its values for kernels, the one for no single kernel first."""
        entry = self._scheduling[step.name]
        parameter = entry.kernel_parameter
        assert parameter
        kept = {name: value for name, value in step.argument_values.items() if name != parameter.name}
        yield PassSpec.of(step.name, **kept)
        for values in product(*parameter.per_kernel.values()):
            arguments = {**kept, **dict(zip(parameter.per_kernel, values, strict=True))}
            # Without arguments that are defaults, as the catalog writes a pass.
            arguments = {name: value for name, value in arguments.items() if value != entry.parameter(name).default}
            if arguments != kept:
                yield PassSpec.of(step.name, **arguments)

    def _decide_regions(self, pipeline: Pipeline, entry: CatalogEntry) -> tuple[Pipeline, list[Decision]]:
        """Return the pipeline with the best value for every region that a pass decides on."""
        place, parameter = entry.place_in(pipeline), entry.regional_parameter
        assert parameter
        if place is None:
            return pipeline, []
        state = self._profiler.reach(Pipeline(pipeline.passes[:place]))
        regions = state if isinstance(state, Failure) else self._profiler.regions(state, parameter.regions)
        if isinstance(regions, Failure) or not regions:
            return pipeline, []
        kinds: dict[str, list[str]] = defaultdict(list)
        for region in regions:
            kinds[region.like].append(region.key)

        # A sequence of the catalog may decide on all regions alike; what is best for each begins without that.
        present = pipeline.passes[place]
        plain = entry.decide(pipeline, {}) if present.name == entry.name and present.argument_values else pipeline
        whole, begin = self.cost(pipeline), self.cost(plain)
        if isinstance(whole, Failure) or isinstance(begin, Failure):
            return pipeline, []
        decisions: list[Decision] = []
        by_table: list[Decision] = []  # the same, with schedules that are not used
        try:
            with self._keeping_time():
                for keys, value in product(kinds.values(), parameter.region_values[1:]):
                    cost = self.cost(entry.decide(plain, dict.fromkeys(keys, value)))
                    # A value may be what the pass does with a region that is not named.
                    if not isinstance(cost, Failure) and cost.calls != begin.calls:
                        decisions.append(_decision(entry.name, tuple(keys), value, begin=begin, cost=cost))
                        by_table.append(replace(decisions[-1], saved_s=self._least_s(begin) - self._least_s(cost)))
        except OutOfTime:
            _log.info("no time is left for more regions of %s; %d values were timed", entry.name, len(decisions))
        timed = Counter(each.regions for each in decisions)
        self._combinations += sum(math.log10(1 + number) for number in timed.values())
        plain_s = begin.total_s if self._is_usable(begin.calls) else math.inf
        worthwhile = [each for each in decisions if each.saved_s > LEAST_SHARE * begin.total_s]
        chosen = choose([each for each in worthwhile if self._is_usable(each.added)], begin.calls)
        together = entry.decide(plain, {key: each.value for each in chosen for key in each.regions})
        cost = self.cost(together) if chosen else begin
        # Alone each of them saved time; together they may fail, or kernels may be fused in another way.
        is_better = (
            not isinstance(cost, Failure)
            and self._is_usable(cost.calls)
            and cost.total_s <= min(plain_s, whole.total_s)
        )
        made = chosen if is_better else []
        saving = choose([each for each in by_table if each.saved_s > 0], begin.calls)
        used_s = math.fsum(each.saved_s for each, own in zip(by_table, decisions, strict=True) if own in made)
        self._unused_s += math.fsum(each.saved_s for each in saving) - used_s
        rest = pipeline if whole.total_s <= plain_s else plain
        return (together if made else rest), made

    def _is_usable(self, digests: Iterable[str]) -> bool:
        """Return whether a network may have all of these kernels."""
        return all(map(self._times.is_usable, digests))

    def _schedule(self, pipeline: Pipeline, cost: Cost) -> Pipeline:
        """Return the pipeline whose scheduling pass has the fastest schedule of every kernel as an argument."""
        place = self._scheduling_place(pipeline)
        step = pipeline.passes[place]
        entry = self._scheduling[step.name]
        parameter, plain = entry.kernel_parameter, entry.kernel_schedule(step)
        assert parameter
        values = {
            name: _difference(fastest, plain, tuple(parameter.per_kernel))
            for name, fastest in sorted(cost.schedules.items())
        }
        settings: dict[str, Json] = {name: value for name, value in values.items() if value}
        own: dict[str, Json] = {parameter.name: settings} if settings else {}
        scheduled = PassSpec.of(step.name, **plain.argument_values, **own)
        return Pipeline((*pipeline.passes[:place], scheduled, *pipeline.passes[place + 1 :]))


def _decision(step: str, regions: tuple[str, ...], value: Json, *, begin: Cost, cost: Cost) -> Decision:
    replaced = {
        digest: number - cost.calls.get(digest, 0)
        for digest, number in begin.calls.items()
        if number > cost.calls.get(digest, 0)
    }
    added = frozenset(digest for digest, number in cost.calls.items() if number > begin.calls.get(digest, 0))
    return Decision(step, regions, value, begin.total_s - cost.total_s, replaced, added)


def _fastest(times: Mapping[PassSpec, float], default: PassSpec) -> PassSpec:
    """Return the fastest schedule, or the default if none saves more than the noise."""
    fastest = min(times, key=lambda step: times[step])
    is_noise = default in times and times[default] - times[fastest] < LEAST_GAIN * times[default]
    return default if is_noise else fastest


def _difference(step: PassSpec, other: PassSpec, names: Sequence[str]) -> dict[str, Json]:
    """Return the values in ``step`` of the parameters that have another value in ``other``; ``None`` is a default."""
    first, second = step.argument_values, other.argument_values
    return {name: first.get(name) for name in names if first.get(name) != second.get(name)}
