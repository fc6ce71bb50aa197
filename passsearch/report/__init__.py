"""Documents as people read them: text for terminals, HTML for notebooks and pages."""

from passsearch.report.graph import space_picture
from passsearch.report.html import result_html, result_page
from passsearch.report.listings import (
    analysis_text,
    audit_text,
    catalog_text,
    checks_text,
    entry_text,
    findings_text,
    toolchains_text,
)
from passsearch.report.space import check_text, space_text
from passsearch.report.text import comparison_text, result_text
from passsearch.report.wording import verdict_text

__all__ = [
    "analysis_text",
    "audit_text",
    "catalog_text",
    "check_text",
    "checks_text",
    "comparison_text",
    "entry_text",
    "findings_text",
    "result_html",
    "result_page",
    "result_text",
    "space_picture",
    "space_text",
    "toolchains_text",
    "verdict_text",
]
