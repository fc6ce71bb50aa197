"""Result documents as people read them: text for terminals, HTML for notebooks and pages, SVG pictures."""

from passsearch.report.ablation_text import ablation_headline, ablation_text
from passsearch.report.application import application_text
from passsearch.report.batch import batch_results_text, batch_states_text, cross_text
from passsearch.report.charts import (
    ablation_chart,
    chart_svg,
    history_chart,
    kernels_chart,
    pareto_chart,
    plotly_figure,
    precision_chart,
    space_chart,
)
from passsearch.report.comparison import comparison_html, comparison_text
from passsearch.report.compiled import compiled_headline, compiled_text
from passsearch.report.engines import engines_text
from passsearch.report.exploration import certificate_check_text, space_text
from passsearch.report.formatting import format_megabytes
from passsearch.report.fragments import (
    ablation_html,
    analysis_html,
    audit_html,
    catalog_entry_html,
    engines_html,
    space_html,
)
from passsearch.report.frame import candidates_frame
from passsearch.report.headline import headline_text
from passsearch.report.html import result_html
from passsearch.report.listings import (
    analysis_text,
    audit_text,
    catalog_check_text,
    catalog_entry_text,
    catalog_text,
    examples_text,
    findings_text,
    runs_text,
    toolchains_text,
    zoo_text,
)
from passsearch.report.page import report_page
from passsearch.report.profile import profile_chart, profile_html, profile_text
from passsearch.report.progress import ProgressBar, in_ipython
from passsearch.report.recommended import recommendation_text
from passsearch.report.regression import regression_text
from passsearch.report.reproduction import reproduction_text
from passsearch.report.rivals import engine_name
from passsearch.report.run_record import RunRecord, read_record, read_run
from passsearch.report.runs_table import runs_side_by_side_text
from passsearch.report.sequence import search_sentence
from passsearch.report.state_graph import state_graph_svg
from passsearch.report.text import candidate_text, result_text
from passsearch.report.trial import trial_text
from passsearch.report.verdict import verdict_text

__all__ = [
    "ProgressBar",
    "RunRecord",
    "ablation_chart",
    "ablation_headline",
    "ablation_html",
    "ablation_text",
    "analysis_html",
    "analysis_text",
    "application_text",
    "audit_html",
    "audit_text",
    "batch_results_text",
    "batch_states_text",
    "candidate_text",
    "candidates_frame",
    "catalog_check_text",
    "catalog_entry_html",
    "catalog_entry_text",
    "catalog_text",
    "certificate_check_text",
    "chart_svg",
    "comparison_html",
    "comparison_text",
    "compiled_headline",
    "compiled_text",
    "cross_text",
    "engine_name",
    "engines_html",
    "engines_text",
    "examples_text",
    "findings_text",
    "format_megabytes",
    "headline_text",
    "history_chart",
    "in_ipython",
    "kernels_chart",
    "pareto_chart",
    "plotly_figure",
    "precision_chart",
    "profile_chart",
    "profile_html",
    "profile_text",
    "read_record",
    "read_run",
    "recommendation_text",
    "regression_text",
    "report_page",
    "reproduction_text",
    "result_html",
    "result_text",
    "runs_side_by_side_text",
    "runs_text",
    "search_sentence",
    "space_chart",
    "space_html",
    "space_text",
    "state_graph_svg",
    "toolchains_text",
    "trial_text",
    "verdict_text",
    "zoo_text",
]
