"""One run: its settings, its folder, and what it may search."""

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from passsearch.catalog import require_searchable
from passsearch.core import Json, limit_or_none, safe_file_name
from passsearch.errors import PassSearchError, UserError
from passsearch.evaluate import Session, WorkerEvaluator
from passsearch.search.confirm import require_repetitions
from passsearch.search.document import Document
from passsearch.search.execution import Execution, Progress
from passsearch.search.options import RunOptions
from passsearch.search.rivals import Beside
from passsearch.search.samplers import require_strategy
from passsearch.search.session_settings import session_settings
from passsearch.store import LIMIT_KEYS, RunFolder, open_fact_cache

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Run:
    """A run that can be started and continued.

    Attributes:
        session: Network, compiler and device.
        options: The options of the run.
        beside: Other engines that the winner is measured beside; ``None`` for no such measurement.
    """

    session: Session
    options: RunOptions
    beside: Beside | None = None

    @property
    def settings(self) -> dict[str, Json]:
        """Settings that must be equal for a run to be continued, apart from those in ``LIMIT_KEYS``."""
        options = self.options
        return {
            **session_settings(self.session),
            "objectives": [objective.name for objective in options.objectives],
            "seed": options.seed,
            "keep_throughput": options.keep_throughput,
            "least_gain": options.least_gain,
            "passes": list(options.passes) if options.passes is not None else None,
            "additional": list(options.additional),
            "sampler": options.sampler,
            "repetitions": options.repetitions,
            **self.limits,
        }

    @property
    def limits(self) -> dict[str, Json]:
        """The settings that may change when a run is continued."""
        return {"trials": self.options.trials, "timeout_s": limit_or_none(self.session.limits.timeout_s)}

    @property
    def _objective_names(self) -> str:
        return " and ".join(objective.name for objective in self.options.objectives)

    def default_folder(self, parent: Path) -> Path:
        """Return a folder of this run's own, found again by the same call."""
        # Growing settings are left out: the same call with more trials continues the run.
        identity = repr(sorted((key, value) for key, value in self.settings.items() if key not in LIMIT_KEYS))
        return parent / f"{safe_file_name(self.session.model.name)}-{crc32(identity.encode()):08x}"

    def execute(self, folder: Path, progress: Progress, *, spent_s: float = 0.0) -> Document:
        """Start or continue the run and return its result; an interruption ends it early with what is known.

        Args:
            folder: The run folder.
            progress: Callback; see ``Progress``.
            spent_s: Seconds that the session took to open, which count as the run's.

        Raises:
            UserError: An option is impossible, the network cannot be imported, or its baseline fails.
            EnvironmentFault: The compiler does not start.
        """
        self._check()
        run_folder = RunFolder(folder, self.settings)
        run_folder.log.charge(spent_s)
        _log.info("tuning %s for %s in %s", self.session.model.source, self._objective_names, folder)
        try:
            with ExitStack() as stack:
                progress("importing the network", 0, self.options.trials)
                remember = self.options.remember
                cache = stack.enter_context(open_fact_cache(self.session.cache_path)) if remember else None
                kernels = stack.enter_context(open_fact_cache(self.session.kernel_cache_path)) if remember else None
                log, folder = run_folder.log, run_folder.artifacts
                evaluator = stack.enter_context(
                    WorkerEvaluator(self.session, log=log, folder=folder, cache=cache, kernel_cache=kernels)
                )
                return Execution(
                    self.options,
                    run_folder,
                    evaluator,
                    progress,
                    limits=self.limits,
                    beside=self.beside,
                    spent_s=spent_s,
                ).execute()
        except PassSearchError:
            # A mistake in the call must not leave settings behind that refuse the corrected call.
            run_folder.abandon()
            raise
        finally:
            run_folder.close()

    def _check(self) -> None:
        """Refuse impossible options before anything is written."""
        if self.options.passes is not None and not self.options.passes:
            raise UserError(
                "No pass to search, as the list of passes is empty; name some, for example FoldConstant,FuseOps, or "
                "leave the list out to search those that suit the network. See: passsearch catalog list"
            )
        session = self.session
        require_searchable(
            session.catalog,
            self.options.requested_passes,
            tvm_version=session.toolchain.tvm_version,
            device=session.device_kind,
        )
        if self.options.repetitions:
            require_repetitions(self.options.repetitions)
        require_strategy(self.options.sampler, objectives=len(self.options.objectives))
