"""Each device's winner on the other devices: does a sequence that was found on one help on another."""

import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from passsearch.batch.job import BatchJob, TuneJob, digest, plain_name
from passsearch.batch.jobs_file import for_comparison
from passsearch.batch.records import RECORDS, read_document
from passsearch.core import MACHINE_FAULTS, safe_file_name
from passsearch.errors import EnvironmentFault
from passsearch.results import CrossRow
from passsearch.store import OtherSettings, write_json

if TYPE_CHECKING:
    from passsearch.api import Progress

CROSS = "cross"
"""Folder of the comparisons, among the records."""

MEASURED = "measured"
"""Folder of what a comparison has measured, until it is finished."""

SHARED_OPTIONS = ("tolerance", "reference", "deadline", "memory", "catalogs", "trust")
"""Options of a search that hold for a comparison of its winner too."""


@dataclass(frozen=True, kw_only=True)
class CrossJob(BatchJob):
    """A comparison, on one device, of the winners of all devices with the baseline there.

    Attributes:
        search: The search of this device.
        winners: Names of the searches whose winners are compared, by the name of the place they were found at.
        baseline: Name of the baseline.
    """

    search: TuneJob
    winners: Mapping[str, str]
    baseline: str

    @property
    def folder(self) -> Path:
        """Folder of the comparison."""
        return self.runs / RECORDS / CROSS / self.name

    @property
    def comparison(self) -> Mapping[str, Any] | None:
        """The comparison; ``None`` if it is not there yet, or damaged."""
        document: Mapping[str, Any] | None = read_document(self.folder / "comparison.json")
        return document

    @property
    def is_finished(self) -> bool:
        """True if the comparison is there."""
        return self.comparison is not None

    def run(self, progress: "Progress") -> bool:
        """Compare; what was measured before an interruption, by the same version, is not measured again."""
        measured = self.folder / MEASURED
        try:
            document = self._compare(progress)
        except OtherSettings:
            shutil.rmtree(measured, ignore_errors=True)
            document = self._compare(progress)
        # Such a failure says nothing about the winner, and a comparison that is there is not made again.
        for row in document["rows"]:
            if (failure := row.get("failure")) and failure["kind"] in MACHINE_FAULTS:
                raise EnvironmentFault(f"The machine kept `{row['name']}` from being built: {failure['reason']}")
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / "comparison.json", document)
        shutil.rmtree(measured, ignore_errors=True)  # its builds are large
        return True

    def _compare(self, progress: "Progress") -> Mapping[str, Any]:
        # It takes a second to load, which those who look at jobs do not need.
        from passsearch.api import compare

        search, options = self.search, self.search.options
        shared = {name: options[name] for name in SHARED_OPTIONS if name in options}
        return compare(
            search.network.model,
            [self.baseline, *(str(self.runs / name) for name in self.winners.values())],
            batch=search.network.batch,
            inputs=list(search.network.inputs) or None,
            samples=search.network.samples,
            toolchain=search.toolchain,
            target=search.target,
            folder=self.folder / MEASURED,
            progress=progress,
            **shared,
        )


def cross_jobs(jobs: Iterable[TuneJob]) -> list[CrossJob]:
    """Return the comparisons of the searches that are finished, for networks and objectives on two places or more."""
    groups: dict[tuple[Any, ...], dict[str, tuple[TuneJob, Mapping[str, Any]]]] = defaultdict(dict)
    for job in jobs:
        if (result := job.answer) is not None:
            # IRs of different dialects have no pass in common.
            groups[job.network, job.objective, result["toolchain"]["dialect"]][job.name] = (job, result)
    return [_cross_job(job, group) for group in groups.values() if len(group) > 1 for job, _ in group.values()]


def cross_rows(jobs: Iterable[CrossJob]) -> list[CrossRow]:
    """Return a flat row for each winner on each device that was compared there."""
    return [row for job in jobs if job.comparison for row in _rows(job, job.comparison)]


def _cross_job(search: TuneJob, group: Mapping[str, tuple[TuneJob, Mapping[str, Any]]]) -> CrossJob:
    places = _places([job for job, _ in group.values()])
    # With the winners, so that winners of a continued search are compared anew.
    bests = [[name, result["best"]["pipeline"], result["best"]["build"]] for name, (_, result) in group.items()]
    words = [CROSS, Path(search.network.text.removeprefix("zoo:")).stem, search.objective, places[search.name]]
    return CrossJob(
        # "runs": rows are named by runs; comparisons of earlier versions, by places, are made anew.
        name=f"{plain_name(words)}-{digest(['runs', search.name, bests])}",
        device=for_comparison(search.device, search.options),
        runs=search.runs,
        search=search,
        winners={places[name]: name for name in group},
        baseline=group[search.name][1]["baseline"]["name"],
    )


def _places(group: Sequence[TuneJob]) -> dict[str, str]:
    """Return, by job, its device, with toolchain and target where the device alone does not tell jobs apart."""
    devices = [job.device.name for job in group]
    return {
        job.name: safe_file_name(job.device.name)
        if devices.count(job.device.name) == 1
        else plain_name([job.device.name, job.toolchain or "", job.target or ""])
        for job in group
    }


def _rows(job: CrossJob, comparison: Mapping[str, Any]) -> list[CrossRow]:
    place_of = {name: place for place, name in job.winners.items()}
    rows = {row["name"]: row for row in comparison["rows"]}
    pairs = {(pair["first"], pair["second"]): pair for pair in comparison["pairs"]}
    baseline = rows[job.baseline]
    return [
        CrossRow(
            network=job.search.network.text,
            objective=job.search.objective,
            found_on=place,
            measured_on=place_of[job.search.name],
            pipeline=rows[name]["pipeline"],
            baseline=job.baseline,
            **_against(pairs, job.baseline, name, prefix="baseline"),
            **_against(pairs, job.search.name, name, prefix="own"),
            baseline_compile_s=baseline.get("compile_s"),
            compile_s=rows[name].get("compile_s"),
            failure=(rows[name].get("failure") or {}).get("reason"),
        )
        for name, place in place_of.items()
    ]


def _against(pairs: Mapping[Any, Mapping[str, Any]], first: str, second: str, *, prefix: str) -> dict[str, Any]:
    """Return the second's throughput as a multiple of the first's, whichever of the two the comparison has first."""
    ratio, low, high, verdict = None, None, None, None
    if pair := pairs.get((first, second)):
        ratio, (low, high), verdict = pair["ratio"], pair["interval"], pair["verdict"]
    elif pair := pairs.get((second, first)):
        ratio, verdict = 1 / pair["ratio"], _INVERSE.get(pair["verdict"], pair["verdict"])
        low, high = (1 / end if end else None for end in reversed(pair["interval"]))
    return {f"{prefix}_ratio": ratio, f"{prefix}_low": low, f"{prefix}_high": high, f"{prefix}_verdict": verdict}


_INVERSE = {"faster": "slower", "slower": "faster"}
