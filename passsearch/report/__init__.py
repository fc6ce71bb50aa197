"""Result documents as people read them: text for terminals, HTML for notebooks and pages, SVG pictures."""

from passsearch.report.ablation_text import ablation_headline, ablation_text
from passsearch.report.batch import batch_results_text, batch_states_text, cross_text
from passsearch.report.engines import engines_text
from passsearch.report.exploration import certificate_check_text, space_text
from passsearch.report.formatting import format_megabytes
from passsearch.report.headline import headline_text
from passsearch.report.html import result_html, result_page
from passsearch.report.listings import (
    analysis_text,
    audit_text,
    catalog_check_text,
    catalog_entry_text,
    catalog_text,
    findings_text,
    runs_text,
    toolchains_text,
)
from passsearch.report.progress import ProgressBar
from passsearch.report.state_graph import state_graph_svg
from passsearch.report.text import candidate_text, comparison_text, result_text
from passsearch.report.verdict import verdict_text

__all__ = [
    "ProgressBar",
    "ablation_headline",
    "ablation_text",
    "analysis_text",
    "audit_text",
    "batch_results_text",
    "batch_states_text",
    "candidate_text",
    "catalog_check_text",
    "catalog_entry_text",
    "catalog_text",
    "certificate_check_text",
    "comparison_text",
    "cross_text",
    "engines_text",
    "findings_text",
    "format_megabytes",
    "headline_text",
    "result_html",
    "result_page",
    "result_text",
    "runs_text",
    "space_text",
    "state_graph_svg",
    "toolchains_text",
    "verdict_text",
]
