"""Charts of runs: each is made once as plain data, and drawn as SVG for pages or as a plotly figure for notebooks."""

from passsearch.report.charts.ablation import METRICS, ablation_chart
from passsearch.report.charts.chart import BEST, OTHER, Chart
from passsearch.report.charts.history import history_chart
from passsearch.report.charts.kernels import kernels_chart
from passsearch.report.charts.pareto import pareto_chart
from passsearch.report.charts.plotly_figure import INSTALL, plotly_figure
from passsearch.report.charts.precision import precision_chart
from passsearch.report.charts.profile import blocks_chart, has_roofline, roofline_chart
from passsearch.report.charts.ratios import ratio_chart, ratios_chart
from passsearch.report.charts.space import space_chart
from passsearch.report.charts.svg import chart_html, chart_svg

__all__ = [
    "BEST",
    "INSTALL",
    "METRICS",
    "OTHER",
    "Chart",
    "ablation_chart",
    "blocks_chart",
    "chart_html",
    "chart_svg",
    "has_roofline",
    "history_chart",
    "kernels_chart",
    "pareto_chart",
    "plotly_figure",
    "precision_chart",
    "ratio_chart",
    "ratios_chart",
    "roofline_chart",
    "space_chart",
]
