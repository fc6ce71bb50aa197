"""Placeholder."""
from collections.abc import Mapping
from typing import Any
def result_html(document: Mapping[str, Any]) -> str:
    return ""
def result_page(document: Mapping[str, Any]) -> str:
    return ""
