"""The trial of a foreign kernel."""

from passsearch.report.formatting import format_ratio
from passsearch.report.table import paragraph, table, text_width
from passsearch.results import KernelTrial


def trial_text(trial: KernelTrial) -> str:
    """Return the checks as a table, the times with their intervals, and the verdict."""
    width = text_width()
    if not trial.checks:
        return f"A function in the place of `{trial.tried.kernel}` begins in C as\n\n{trial.tried.prototype}"
    rows = [(check.name, "ok" if check.ok else "refused", check.detail) for check in trial.checks]
    parts = [table(("check", "", "result"), rows, width=width)]
    if times := trial.times:
        both = f"{1e6 * times.present_s:.4g} us before, {1e6 * times.foreign_s:.4g} us now"
        parts.append(paragraph("Kernel in its place", f"{both}; speed {format_ratio(times.kernel)}.", width=width))
        of_network = f"throughput {format_ratio(times.network)}, by {times.processes} processes."
        parts.append(paragraph("Network", of_network, width=width))
    outcome = f"admitted: {trial.verdict}." if trial.admitted else f"refused: {trial.reason}."
    parts.append(paragraph(f"`{trial.tried.file}` for `{trial.tried.kernel}`", outcome, width=width))
    if trial.folder or trial.not_exported:
        text = f"written to {trial.folder}." if trial.folder else f"none, because {trial.not_exported}."
        parts.append(paragraph("Export", text, width=width))
    return "\n\n".join(parts)
