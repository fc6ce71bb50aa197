"""``ablate``: what each pass of a run's winner is worth."""

import logging
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from passsearch.api.common import Progress, progress_callback
from passsearch.api.recorded_run import recorded_session
from passsearch.api.results import Ablation
from passsearch.core import DEADLINE_S, Limits, TimeLimit, check_arguments, limit_or_inf, timestamp
from passsearch.evaluate import MeasurementPlans, WorkerEvaluator
from passsearch.report import ablation_headline
from passsearch.search import session_settings
from passsearch.store import ABLATION, open_ablation, read_result, write_json
from passsearch.studies import ablate_run

_log = logging.getLogger(__name__)


@check_arguments
def ablate(
    run: str | Path,
    *,
    timeout: float | None = None,
    until_decided: bool = False,
    toolchain: str | None = None,
    deadline: float = DEADLINE_S,
    memory: float | None = None,
    catalogs: Sequence[str | Path] = (),
    trust: bool = False,
    plans: MeasurementPlans | None = None,
    progress: Progress | bool | None = None,
) -> Ablation:
    """Measure what each pass of a run's winner is worth, and write it to ``ablation.json`` in the run folder.

    The winner is brought to its shortest form with the same IR. Then its passes are added one by one, and each is left
    out once. All of these are timed in turns beside the baseline, in several processes, and compiled afresh. The same
    call again goes on where an earlier one was cut off.

    Args:
        run: A finished run folder.
        timeout: Wall time of this call in seconds. The first measurement begins if any time is left; a further one only
            if one as long as the last still fits.
        until_decided: True to end as soon as it is decided what every pass is worth. Fewer processes may time the
            steps, and only those pipelines are compiled afresh whose compile time can change what a pass is worth.
        trust: True to run passes that only the run folder names, from the import paths that it names, and what its
            network calls.
        progress: ``True`` for a display on standard error (the default in IPython and notebooks), or a callback.
            It gets the current step in words.

    Raises:
        UserError: The run has no finished winner, or it cannot be built any more.
        EnvironmentFault: Its toolchain is not installed.
    """
    time_limit, folder = TimeLimit(limit_or_inf(timeout)), Path(run)
    document = read_result(folder)
    limits = Limits(deadline=deadline, memory=memory)  # what is begun before the time limit is not cut off by it
    session = recorded_session(
        document, folder, toolchain=toolchain, limits=limits, catalogs=catalogs, trust=trust, plans=plans
    )
    _log.info("ablating %s: %s", folder, document["best"]["pipeline"] or "no explicit pass")
    # All that decides the measurements, but for the pipelines that they are measurements of.
    measured = open_ablation(folder, {**session_settings(session), "factories": dict(session.own_factories)})
    try:
        # Without the fact cache, which has the samples of the run.
        with (
            progress_callback(progress) as report,
            WorkerEvaluator(session, log=measured.log, folder=measured.artifacts) as evaluator,
        ):
            ablation = ablate_run(
                document, evaluator, progress=report, time_limit=time_limit, until_decided=until_decided
            )
        evidence = replace(ablation.measured, measured_at=timestamp(measured.measured_at))
        ablation = replace(ablation, measured=evidence, headline=ablation_headline(ablation))
        write_json(folder / ABLATION, ablation.to_json())
        if ablation.complete:
            # The samples stay; artifacts are as large as the network's weights.
            shutil.rmtree(measured.artifacts, ignore_errors=True)
    finally:
        measured.close()
    return Ablation(ablation.to_json())
