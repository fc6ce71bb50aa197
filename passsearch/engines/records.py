"""Records of a comparison of engines: its plan, what it measured of each engine, and what disturbed it."""

from dataclasses import dataclass, field
from typing import Any

from passsearch.engines.client import EngineFailure, EngineSpec
from passsearch.engines.contract import KernelCall
from passsearch.engines.disturbance import Disturbance


@dataclass(frozen=True)
class EnginePlan:
    """Plan of one comparison.

    Attributes:
        threads: Threads of each engine, and cores that its process is pinned to.
        processes: Number of processes of each engine, one after another.
        rounds: Rounds of a process; every engine has one turn in each, in random order. A disturbed round is replaced,
            up to twice as many run, and the least disturbed ones count.
        race_s: Time after which a process begins no further round, if it has two.
        visit_s: Time after which a turn begins no further inference.
        most: Largest number of inferences in a turn.
        pause_s: Pause before each turn, in which idle threads of the engine before stop spinning.
        slow_s: An engine whose first inferences all take longer is slow. It has a turn in the first round of a process
            only, for one inference without a run that fills the caches.
        slow_processes: Number of processes of a slow engine.
        limit: Largest deviation of outputs, as a share of the largest expected output.
        seed: Seed of the order.
        requests: Numbers of inferences that run at the same time, each timed after the single ones of a turn.
        kernel_runs: Number of inferences for which the profiler of each engine runs, after the rounds of the first
            process; 0 for none.
    """

    threads: int = 2
    processes: int = 6
    rounds: int = 12
    visit_s: float = 0.4
    most: int = 10
    pause_s: float = 0.2
    slow_s: float = 1.0
    slow_processes: int = 3
    limit: float = 1e-4
    seed: int = 0
    requests: tuple[int, ...] = ()
    kernel_runs: int = 0
    race_s: float | None = None


@dataclass
class EngineRecord:
    """The measurement of one engine so far.

    Attributes:
        spec: The engine.
        opened: Answers to ``open``, by process.
        first_s: Seconds of the first inference, by process.
        memory_bytes: Largest memory that loading and the first inference add, by process; empty where the system does
            not say.
        deviations: Deviation of the outputs, by process; every process has other inputs.
        visits: Seconds of every inference, by process and round.
        rates: Inferences per second by the number that run at the same time, by process and round.
        no_rates: Reason why the engine cannot run that number of inferences, by the number.
        energy_j: Joules of one inference, by process and round; empty where there is no meter.
        power_w: Mean power of a turn in watts, by process and round.
        artifact_bytes: Size of the files that the engine loads.
        accuracy: Share of labelled samples that it classifies right, with their numbers, or the reason why it is not
            known; ``None`` without labels.
        kernels: Kernel calls of one inference, by the engine's own profiler.
        no_kernels: Reason why there are none; empty if none were asked for.
        idle_share: Largest share of a core that the process used between its turns; 0 if its threads sleep then.
        not_revived: Reason why the network did not load again after its process had ended, so that the process has
            fewer rounds; empty if that never happened.
        failure: Reason why the engine has no result; empty if it has one.
        is_accident: True if that is an accident; see ``EngineFailure``.
        is_mistake: True if that is a mistake of the user.
    """

    spec: EngineSpec
    opened: list[dict[str, Any]] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    memory_bytes: list[int] = field(default_factory=list)
    deviations: list[float] = field(default_factory=list)
    visits: list[list[list[float]]] = field(default_factory=list)
    rates: dict[int, list[list[float]]] = field(default_factory=dict)
    no_rates: dict[int, str] = field(default_factory=dict)
    energy_j: list[list[float]] = field(default_factory=list)
    power_w: list[list[float]] = field(default_factory=list)
    artifact_bytes: int | None = None
    accuracy: dict[str, Any] | None = None
    kernels: list[KernelCall] = field(default_factory=list)
    no_kernels: str = ""
    idle_share: float = 0.0
    not_revived: str = ""
    failure: str = ""
    is_accident: bool = False
    is_mistake: bool = False

    def fail(self, error: EngineFailure) -> None:
        """Note why the engine has no result."""
        self.failure, self.is_accident, self.is_mistake = str(error), error.is_accident, error.is_mistake

    @property
    def samples(self) -> list[list[float]]:
        """Fastest inference of each turn in seconds, by process."""
        return [[min(turn) for turn in turns] for turns in self.visits]

    def is_slow(self, plan: EnginePlan) -> bool:
        """Return True if every inference so far took longer than ``EnginePlan.slow_s``."""
        # The first inference may do more than the next, and so may another one that others disturb.
        seconds = [*self.first_s, *(value for turns in self.visits for turn in turns for value in turn)]
        return bool(seconds) and min(seconds) > plan.slow_s


@dataclass(frozen=True)
class Comparison:
    """All engines beside each other.

    Attributes:
        records: The engines, in the order of the call.
        disturbances: Disturbance of every round that counts, by process.
    """

    records: tuple[EngineRecord, ...]
    disturbances: tuple[tuple[Disturbance, ...], ...]
