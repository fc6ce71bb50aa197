"""The times of every call of a network's kernels, and the energy of kernels that run alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from passsearch.core import Failure
from passsearch.evaluate.artifact_files import ArtifactFiles
from passsearch.evaluate.facts import FactStore, read_fact
from passsearch.evaluate.records import Built, Network
from passsearch.evaluate.session import Session
from passsearch.evaluate.timed_records import NetworkProfile
from passsearch.evaluate.timing import Timing


@dataclass(frozen=True)
class NetworkProfiler:
    """Reads the times of the kernels of artifacts.

    Attributes:
        session: The session.
        network: The network.
        facts: The facts of the run.
        files: The files of the artifacts.
        timing: Times them.
    """

    session: Session
    network: Network
    facts: FactStore
    files: ArtifactFiles
    timing: Timing

    def profile(self, artifacts: Sequence[Built], *, energy: bool) -> tuple[NetworkProfile, ...] | Failure:
        """Run artifacts in turns in several new processes, and return the times of all their calls.

        Where the runtime does not tell the calls of an inference apart, as on a GPU, every kernel runs alone.

        Args:
            artifacts: The artifacts, with their files.
            energy: True to read the energy of every kernel, which runs alone for that.
        """
        key = "|".join(artifact.digest for artifact in artifacts)
        folders = [str(artifact.folder) for artifact in artifacts]
        plan = self.session.plans.places
        fact = self.facts.recall_or_record("profile", key, lambda: self.timing.profile(folders, plan))
        processes = read_fact(fact, lambda answer: answer["processes"])
        if isinstance(processes, Failure):
            return processes
        profiles = []
        for built, answers in zip(artifacts, zip(*processes, strict=True), strict=True):
            costs = self.files.kernel_costs(built)
            has_calls = all(answer["calls"] is not None for answer in answers)
            alone: Mapping[str, Any] | Failure = {}
            # What runs alone is not weighed by cases.
            is_metered = energy and self.session.sensors.meter is not None
            if not self.network.cases and (is_metered or not has_calls):
                alone = self._kernels_alone(built, number=len(costs), is_metered=is_metered)
            if isinstance(alone, Failure):
                return alone
            if not has_calls and not alone:
                reason = f"the runtime of `{self.session.target}` does not tell kernels apart"
                if self.network.cases:
                    reason += ", and kernels that run alone have no weights: profile one function at one size"
                return Failure("infra", "measure", "", reason)
            profiles.append(NetworkProfile.from_answers(built, answers, costs, alone))
        return tuple(profiles)

    def _kernels_alone(self, built: Built, *, number: int, is_metered: bool) -> Mapping[str, Any] | Failure:
        """Return calls, seconds and energy by kernel, each run alone; empty if this runtime cannot do that."""
        folder, plan = str(built.folder), self.session.plans.kernel_windows
        if not is_metered:  # a meter needs seconds, a clock does not
            plan = replace(plan, window_s=plan.window_s / 10, settle_s=plan.settle_s / 10)
        fact = self.facts.recall_or_record(
            "kernels alone",
            f"{built.digest}|{is_metered}",
            lambda: self.timing.kernel_consumption(folder, plan, kernels=number, is_metered=is_metered),
        )
        return read_fact(fact, lambda answer: answer["kernels"])
