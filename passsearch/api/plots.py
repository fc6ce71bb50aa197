"""``result.plot``: the charts of a run as plotly figures."""

from dataclasses import dataclass
from typing import Any

from passsearch.errors import UserError
from passsearch.objectives import THROUGHPUT
from passsearch.report import (
    RunRecord,
    ablation_chart,
    history_chart,
    kernels_chart,
    pareto_chart,
    plotly_figure,
    precision_chart,
    space_chart,
)
from passsearch.results import PrecisionDecision


@dataclass(frozen=True)
class Plots:
    """The charts of a run. Each method returns a ``plotly.graph_objects.Figure``, which a notebook shows.

    Attributes:
        record: The run.
    """

    record: RunRecord

    def __repr__(self) -> str:
        return "plots: history(), pareto(), space(), kernels(), precision(), ablation()"

    def history(self) -> Any:
        """Return the gain of every candidate over the time of the search, and the best one until then.

        Raises:
            UserError: plotly is not installed.
        """
        return plotly_figure(history_chart(self.record))

    def pareto(self) -> Any:
        """Return throughput against compile time of all candidates, with the front.

        Raises:
            UserError: plotly is not installed.
        """
        return plotly_figure(pareto_chart(self.record))

    def space(self) -> Any:
        """Return the state graph: what was explored, what of it was measured, and the way to the winner.

        Raises:
            UserError: plotly is not installed.
        """
        return plotly_figure(space_chart(self.record))

    def kernels(self) -> Any:
        """Return the times of the winner's kernels beside those of the candidate it was composed of.

        Raises:
            UserError: plotly is not installed, or the run has no times of kernels.
        """
        return plotly_figure(kernels_chart(self.record))

    def precision(self) -> Any:
        """Return the error of outputs and the time of an inference by the precision of weights.

        Raises:
            UserError: plotly is not installed, or the run decided on no precision.
        """
        decision = self.record.result.precision
        if not isinstance(decision, PrecisionDecision):
            raise UserError("The run decided on no precision of weights; search with --precision weights --budget 0.01")
        return plotly_figure(precision_chart(decision))

    def ablation(self, *, metric: str = THROUGHPUT.name, kind: str = "ladder") -> Any:
        """Return what every pass of the winner is worth.

        Args:
            metric: ``throughput`` or ``compile_time``.
            kind: ``ladder``, which adds passes one by one, or ``without``, which leaves out each once.

        Raises:
            UserError: plotly is not installed, or the run has no ablation; the message says how to make it.
        """
        return plotly_figure(ablation_chart(self.record, metric=metric, kind=kind))
