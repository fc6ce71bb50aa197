"""Results of API functions: they print as tables, and notebooks show them as HTML."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import passsearch.results as results
from passsearch.core import printable
from passsearch.report import (
    ablation_html,
    ablation_text,
    analysis_html,
    application_text,
    audit_html,
    audit_text,
    catalog_entry_html,
    catalog_entry_text,
    comparison_html,
    comparison_text,
    engines_html,
    engines_text,
    plotly_figure,
    profile_chart,
    profile_html,
    profile_text,
    recommendation_text,
    regression_text,
    reproduction_text,
    space_html,
    space_text,
    trial_text,
)
from passsearch.search import NetworkAnalysis


class AppliedPipeline(dict[str, Any]):
    """The result of ``apply``; its items are those of ``passsearch apply --json``."""

    def __repr__(self) -> str:
        return printable(application_text(results.Application.from_json(self)), keep="\n")


class Regression(dict[str, Any]):
    """The result of ``regress``; its items are those of ``passsearch regress --json``."""

    def __repr__(self) -> str:
        return printable(regression_text(results.Regression.from_json(self)), keep="\n")


class Reproduction(dict[str, Any]):
    """The result of ``reproduce``; its items are those of ``passsearch reproduce --json``."""

    def __repr__(self) -> str:
        return printable(reproduction_text(self), keep="\n")


class KernelTrial(dict[str, Any]):
    """The result of ``try_kernel``; its items are those of ``passsearch try --json``."""

    def __repr__(self) -> str:
        return printable(trial_text(results.KernelTrial.from_json(self)), keep="\n")


@dataclass(frozen=True, repr=False)
class Analysis(NetworkAnalysis):
    """The result of ``analyze``.

    Attributes:
        recommendation: The pipeline that is recommended without a search.
    """

    recommendation: results.NetworkRecommendation | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the form of ``passsearch analyze --json``, without the name of the network."""
        selection = self.selection
        return {
            "operators": dict(Counter(operator.kind for operator in self.summary.operators).most_common()),
            "fingerprint": self.fingerprint.to_json(),
            "classes": [label.to_json() for label in self.classes],
            **({"recommendation": self.recommendation.to_json()} if self.recommendation else {}),
            "passes": [{"name": entry.name, "reason": reason} for entry, reason in selection.candidates],
            "dropped": [{"name": entry.name, "reason": reason} for entry, reason in selection.others],
        }

    def _repr_html_(self) -> str:
        return analysis_html(self.to_json())


class Recommendation(dict[str, Any]):
    """The result of ``recommend``; its items are those of ``passsearch recommend --json``."""

    def __repr__(self) -> str:
        return printable(recommendation_text(results.NetworkRecommendation.from_json(self)), keep="\n")


class CatalogPass(dict[str, Any]):
    """The result of ``catalog_entry``; its items are those of ``passsearch catalog show --json``."""

    def __repr__(self) -> str:
        return printable(catalog_entry_text(self), keep="\n")

    def _repr_html_(self) -> str:
        return catalog_entry_html(self)


class Comparison(dict[str, Any]):
    """The result of ``compare``; its items are those of ``passsearch compare --json``."""

    def __repr__(self) -> str:
        return printable(comparison_text(results.Comparison.from_json(self)), keep="\n")

    def _repr_html_(self) -> str:
        return comparison_html(results.Comparison.from_json(self))


class EngineBenchmark(dict[str, Any]):
    """The result of ``bench``; its items are those of ``passsearch bench --json``."""

    def __repr__(self) -> str:
        return printable(engines_text(self), keep="\n")

    def _repr_html_(self) -> str:
        return engines_html(self)


class Profile(dict[str, Any]):
    """The result of ``profile``; its items are those of ``passsearch profile --json``."""

    def __repr__(self) -> str:
        return printable(profile_text(results.Profile.from_json(self)), keep="\n")

    def _repr_html_(self) -> str:
        return profile_html(results.Profile.from_json(self))

    def plot(self, kind: str = "roofline") -> Any:
        """Return a chart as a ``plotly.graph_objects.Figure``, which a notebook shows.

        Args:
            kind: ``roofline``, or ``blocks`` for the time of every block.

        Raises:
            UserError: plotly is not installed, there is no such chart, or the profile lacks what it shows.
        """
        return plotly_figure(profile_chart(results.Profile.from_json(self), kind))


class Ablation(dict[str, Any]):
    """The result of ``ablate``; its items are those of ``ablation.json`` in the run folder."""

    def __repr__(self) -> str:
        return printable(ablation_text(results.Ablation.from_json(self)), keep="\n")

    def _repr_html_(self) -> str:
        return ablation_html(results.Ablation.from_json(self))


class Audit(dict[str, Any]):
    """The result of ``audit``; its items are those of ``passsearch audit --json``."""

    def __repr__(self) -> str:
        return printable(audit_text(results.Audit.from_json(self)), keep="\n")

    def _repr_html_(self) -> str:
        return audit_html(results.Audit.from_json(self))


class ExploredSpace(dict[str, Any]):
    """The result of ``explore``; its items are those that ``passsearch explore --out`` writes."""

    def __repr__(self) -> str:
        return printable(space_text(results.ExploredSpace.from_json(self)), keep="\n")

    def _repr_html_(self) -> str:
        return space_html(results.ExploredSpace.from_json(self))
