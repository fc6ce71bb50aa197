"""One run from start to result: analyse, search, shortlist, confirm, write down."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from passsearch.core import Candidate, Failure, Objective
from passsearch.errors import PassSearchError, UserError
from passsearch.evaluate import Session
from passsearch.evaluate.evaluator import Evaluator
from passsearch.evaluate.model_import import dialect_digest
from passsearch.evaluate.verify import DEVIATION
from passsearch.search.bisection import Culprit, culprit, write_reproducer
from passsearch.search.confirm import Confirmation, confirm, require_repetitions
from passsearch.search.document import result_document
from passsearch.search.pass_selection import NetworkAnalysis, analyze_network, first_trials
from passsearch.search.records import Plan, Scored, Tally
from passsearch.search.samplers import AUTO, require_strategy
from passsearch.search.shortlist import shortlist
from passsearch.search.study import BaselineFailed, Search
from passsearch.store import RunFolder, open_fact_cache

LOG_VERSION = 6
"""Grows when facts of the log change their meaning; a run made before then cannot be continued."""


EXPLORE_S, EXPLORE_SHARE = 300.0, 0.2
"""Longest time for closing the space before the sampler starts, and the share of a time limit it may take."""

REPRODUCERS = 3
"""Most passes a run writes a reproducer for; each has the network's constants twice."""


@dataclass(frozen=True)
class Tuning:
    """A run that was asked for; the attributes are ``api.tune``'s."""

    chosen: Session
    objectives: tuple[Objective, ...]
    trials: int
    timeout_s: float | None
    seed: int
    repetitions: int
    keep_throughput: float
    passes: Sequence[str] | None
    additional: Sequence[str]
    sampler: str = AUTO
    remember: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        """What must be the same for a run to be continued (``trials`` and ``timeout_s`` may grow)."""
        return {
            # What was found out where nothing ran is not enough where something does.
            **({"idle": True} if self.chosen.idle else {}),
            "log_version": LOG_VERSION,
            "model": self.chosen.model.sha256,
            "inputs": self.chosen.model.to_request()["inputs"],
            "batch": self.chosen.model.batch,
            "dialect_code": dialect_digest(self.chosen.toolchain.dialect),
            "catalogs": self.chosen.catalogs_sha256,
            "threads": self.chosen.threads,
            "target": self.chosen.target,
            "toolchain": self.chosen.toolchain.name,
            "tvm_version": self.chosen.toolchain.tvm_version,
            "tvm_commit": self.chosen.toolchain.tvm_commit,
            "objectives": [objective.name for objective in self.objectives],
            "seed": self.seed,
            "tolerance": self.chosen.tolerance,
            "keep_throughput": self.keep_throughput,
            "passes": list(self.passes) if self.passes is not None else None,
            "additional": list(self.additional),
            "sampler": self.sampler,
            "repetitions": self.repetitions,
            "trials": self.trials,
            "timeout_s": self.timeout_s,
        }

    def default_folder(self, parent: Path) -> Path:
        """A folder of this run's own, found again by the same call."""
        growing = ("trials", "timeout_s")
        identity = repr(sorted((key, value) for key, value in self.settings.items() if key not in growing))
        return parent / f"{self.chosen.model.name}-{crc32(identity.encode()):08x}"

    def run(self, folder: Path, progress: Callable[[str, int, int], None]) -> dict[str, Any]:
        """Start or continue the run; an interruption ends it early with what is known."""
        self._check()
        opened = RunFolder(folder, self.settings)
        try:
            with ExitStack() as stack:
                progress("importing the network", 0, self.trials)
                memory = stack.enter_context(open_fact_cache(self.chosen.memory)) if self.remember else None
                evaluator = self.chosen.evaluator(opened.log, opened.artifacts, memory=memory)
                stack.callback(evaluator.close)
                return self._run(opened, evaluator, progress=progress)
        except PassSearchError:
            opened.abandon()
            raise
        finally:
            opened.close()

    def _check(self) -> None:
        """Refuse what cannot be before anything is written."""
        for name in (*(self.passes or ()), *self.additional):
            self.chosen.catalog.entry(name)
        if self.repetitions:
            require_repetitions(self.repetitions)
        require_strategy(self.sampler, objectives=len(self.objectives))

    def _run(
        self, folder: RunFolder, evaluator: Evaluator, *, progress: Callable[[str, int, int], None]
    ) -> dict[str, Any]:
        wanted = (*(self.passes or ()), *self.additional)
        reading = analyze_network(self.chosen, evaluator.summary, wanted=wanted)
        search = self._search(evaluator, reading, folder=folder, progress=progress)
        best, confirmation, interrupted = self._outcome(search, progress)
        if best is None or search.baseline is None:
            raise KeyboardInterrupt  # nothing to report yet; the log keeps what is known
        spent = dict(evaluator.seconds)
        total = folder.log.seconds
        document = result_document(
            search,
            self.chosen,
            reading=reading,
            best=best,
            confirmation=confirmation,
            seconds={**spent, "search": total - sum(spent.values()), "total": total},
            interrupted=interrupted,
        )
        document["reproducers"], document["deployment"] = [], None
        if not interrupted:
            deployment = evaluator.deployment(best.candidate, folder.path) or {}
            document["deployment"] = {**deployment, "paths": list(self.chosen.paths)} if deployment else None
        if not (interrupted and (folder.path / "result.json").exists()):
            folder.write_result(document)
        if not interrupted:
            progress("looking for the passes that made outputs wrong", self.trials, self.trials)
            document["reproducers"] = self._reproducers(search, document, folder=folder)
            folder.write_result(document)
        return document

    def _reproducers(self, search: Search, document: Mapping[str, Any], *, folder: RunFolder) -> list[dict[str, Any]]:
        """For passes that make outputs deviate; another type or shape of an output explains itself."""
        told = {key: document[key] for key in ("toolchain", "target", "model")}
        deviating = [each for each, failure in search.tally.failures if failure.reason.startswith(DEVIATION)]
        found: list[Culprit] = []
        for candidate in deviating:
            steps = set(candidate.pipeline.passes)
            if len(found) < REPRODUCERS and not any(steps >= set(each.steps) for each in found):
                found += filter(None, [culprit(search.evaluator, candidate)])
        return [
            {"passes": [str(step) for step in each.steps], "folder": each.folder, "reason": each.failure.reason}
            for each in found
            if write_reproducer(search.evaluator, each, folder=folder.path / each.folder, told=told)
        ]

    def _search(
        self,
        evaluator: Evaluator,
        reading: NetworkAnalysis,
        *,
        folder: RunFolder,
        progress: Callable[[str, int, int], None],
    ) -> Search:
        def report(tally: Tally, _: Scored | None) -> None:
            progress("searching", min(tally.evaluated, self.trials), self.trials)

        plan = Plan(
            self.objectives,
            self.trials,
            self.timeout_s,
            self.seed,
            self.keep_throughput,
            sampler=self.sampler,
            explore_s=EXPLORE_S if self.timeout_s is None else min(EXPLORE_S, EXPLORE_SHARE * self.timeout_s),
            compilers=self.chosen.explorers,
        )
        return Search(
            evaluator,
            reading.space(self.chosen.catalog, self.passes),
            plan=plan,
            baselines=self.chosen.dialect.baselines,
            default_baseline=self.chosen.dialect.default_baseline,
            first=first_trials(self.chosen, reading, only=self.passes),
            elapsed_s=lambda: folder.log.clock_s,
            progress=report,
        )

    def _outcome(
        self, search: Search, progress: Callable[[str, int, int], None]
    ) -> tuple[Scored | None, Confirmation | Failure | None, bool]:
        try:
            progress("measuring the baselines", 0, self.trials)
            search.run()
            done = min(search.tally.evaluated, self.trials)
            progress("measuring the shortlist side by side", done, self.trials)
            contenders = shortlist(search)
            if not contenders:
                return search.default_scored, None, False
            return *self._confirm(search, contenders[0], progress=progress), False
        except BaselineFailed as error:
            found = error.failure
            raise UserError(
                f"The baseline fails on this network, {found.kind} in {found.stage}: {found.reason}."
            ) from error
        except KeyboardInterrupt:
            return search.best_so_far(), None, True

    def _confirm(
        self, search: Search, best: Scored, *, progress: Callable[[str, int, int], None]
    ) -> tuple[Scored, Confirmation | Failure | None]:
        if self.repetitions < 1:
            return best, None
        assert search.baseline is not None
        twin = search.evaluator.restore(search.baseline)
        if isinstance(twin, Failure):
            return best, twin
        return best, confirm(
            search.evaluator,
            Candidate(best.candidate.pipeline, best.candidate.build),
            baseline=search.default_scored.candidate,
            twin=twin.folder,
            repetitions=self.repetitions,
            objective=self.objectives[0].name,
            progress=lambda text: progress(text, min(search.tally.evaluated, self.trials), self.trials),
        )
