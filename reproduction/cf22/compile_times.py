"""Tables of compile times: what a search saves, what that is of, and the paper's own measure."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from cells import Table, claim, share, source, span, unavailable
from turns import compile_ratio

from passsearch.dialects import dialect


def against_o3(documents: Mapping[str, Any]) -> Table:
    """Return the results of the searches, each confirmed from fresh compiles, beside the paper's claims."""
    heads = [
        "network",
        "compile time less",
        "by selection alone",
        "graph passes less",
        "paper",
        "found by",
        "at throughput / -O3",
        "same binary",
        "-O3 compiles in",
        "best in",
    ]
    heads += ["highest throughput / -O3", "found by", "paper", "audit"]
    rows = []
    for name, document in documents.items():
        quickest, fastest = document.get("compile_time"), document.get("throughput")
        cells = [name, "–", "–", "–", share(claim("compile_time_reduction", name)), *["–"] * 7]
        if quickest:
            ratios, verdict = quickest["ratios"], quickest["verdict"]
            cells[1] = reduction(ratios["compile_time"]) if verdict["improved"] else f"none: {verdict['reason']}"
            cells[2] = selection_alone(document)
            cells[3] = graph_reductions(document)[0]
            cells[5] = source(quickest)
            cells[6] = span(ratios["throughput"])
            cells[7] = "yes" if verdict["same_binary"] else "no"
            cells[8:10] = [f"{quickest[row]['compile_s']:.1f} s" for row in ("baseline", "best")]
        if fastest:
            cells[10] = span(fastest["ratios"]["throughput"]) + (" improved" if fastest["verdict"]["improved"] else "")
            cells[11] = source(fastest)
        audit = document.get("audit", {})
        audit_cell = "signed off" if audit.get("signed_off") else unavailable(audit)
        rows.append([*cells, share(claim("throughput_gain", name)), audit_cell])
    return "against-o3", heads, rows


def selection_alone(document: Mapping[str, Any]) -> str:
    """Return the compile time saved against -O3 without its evaluation of constants, in percent.

    The best sequence evaluates constants too, quickly and by numpy; that time stays on its side, so the true share is
    a little larger. There is no interval: -O3's passes were timed once.
    """
    profile, quickest = document.get("profile", {}).get("O3"), document["compile_time"]
    if profile is None:
        return "–"
    # As a share of the profiled build, which took another time than the compiles that the ratio is of.
    constants = profile["passes"]["FoldConstant"] / (profile["build_s"] + profile["write_s"])
    return share(1 - quickest["best"]["compile_s"] / (quickest["baseline"]["compile_s"] * (1 - constants)))


def attributed(machines: Sequence[Mapping[str, Any]]) -> Table:
    """Return what the saved compile time is of: the evaluation of constants, and selection and order of passes.

    The last column leaves out the evaluation of constants on both sides, each in its own compile, so it is of selection
    and order alone. All were compiled in turns, so the ratios have intervals.
    """
    heads = ["device", "network", "-O3", "of that constants", "O3-numpy", "quickest sequence", "of that constants"]
    rows = []
    for documents in machines:
        for name, document in documents.items():
            compiles = document.get("attribute", {}).get("compiles", {})
            o3, numpy, best = (compiles.get(each, ()) for each in ("O3", "O3-numpy", "AS-best"))
            failed = any("failure" in row for row in (*o3, *numpy, *best))
            if o3 and numpy and best and not failed:
                seconds = [_median_s(o3), _constants_s(o3), _median_s(numpy), _median_s(best), _constants_s(best)]
                saved = [
                    reduction(compile_ratio(o3, best)),
                    reduction(compile_ratio(*map(_without_constants, (o3, best)))),
                ]
                rows.append([document["attribute"]["device"]["name"], name, *seconds, *saved])
    return "attributed", [*heads, "saved", "saved without constants"], rows


def _median_s(compiles: Sequence[Mapping[str, Any]]) -> str:
    return f"{median(row['compile_s'] for row in compiles):.1f} s"


def _constants_s(compiles: Sequence[Mapping[str, Any]]) -> str:
    return f"{median(row['parts_s']['constants'] for row in compiles):.1f} s"


def _without_constants(compiles: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    return [{"compile_s": row["compile_s"] - row["parts_s"]["constants"]} for row in compiles]


def reduction(ratio: Mapping[str, Any]) -> str:
    """Return the time saved by a ratio of compile times, in percent: ``72 % [67 %, 76 %]``."""
    ends = [share(1 - 1 / end) for end in ratio["interval"] or () if end]
    return share(1 - 1 / ratio["ratio"]) + (f" [{', '.join(ends)}]" if ends else "")


def is_lowering(step: str) -> bool:
    """Return whether a pass of a build makes kernels of the graph, or belongs to their code generation."""
    return step in ("LowerTE", "RelayToTIRTargetHook") or step.startswith("tir.")


def graph_seconds(build: Mapping[str, Any]) -> float:
    """Return the time of a profiled build until its graph is optimised: its passes, without lowering and code."""
    return float(sum(seconds for step, seconds in build["passes"].items() if not is_lowering(step)))


def graph_times(document: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Return the time of -O3's graph passes, of them FoldConstant, and the time of the best sequence's graph passes.

    Those of the best sequence are its own passes and what its build still runs on the graph.
    """
    profile = document.get("profile", {})
    if "O3" not in profile or "AS-best" not in profile or "compile_time" not in document:
        return None
    best_s = document["compile_time"]["best"]["apply_s"] + graph_seconds(profile["AS-best"])
    return graph_seconds(profile["O3"]), profile["O3"]["passes"]["FoldConstant"], best_s


def graph_reductions(document: Mapping[str, Any]) -> tuple[str, str]:
    """Return the share of the graph passes' time that is saved, and the same against -O3 without FoldConstant."""
    times = graph_times(document)
    if times is None:
        return "–", "–"
    baseline_s, constants_s, best_s = times
    return share(1 - best_s / baseline_s), share(1 - best_s / (baseline_s - constants_s))


def graph_passes(documents: Mapping[str, Any]) -> Table:
    """Return the paper's own compile time, "to generate the optimized computation graph", here and in the paper."""
    heads = ["network", "-O3's graph passes", "of that FoldConstant", "best sequence's graph passes", "less"]
    heads += ["less than -O3 without FoldConstant", "paper: less"]
    rows = []
    for name, document in documents.items():
        times = graph_times(document)
        if times:
            seconds = [f"{each:.1f} s" for each in times]
            paper = share(claim("compile_time_reduction", name))
            rows.append([name, *seconds, *graph_reductions(document), paper])
    return "graph-passes", heads, rows


def levels(documents: Mapping[str, Any]) -> Table:
    """Return which of TVM's levels make one binary of a network, and so cannot differ in speed."""
    rows = []
    for name, document in documents.items():
        by_binary: dict[str, list[str]] = {}
        for row in document.get("compile_time", {}).get("baselines", []):
            by_binary.setdefault(row["binary"], []).append(row["name"])
        if by_binary:
            same = [" = ".join(names) for names in by_binary.values() if len(names) > 1]
            rows.append([name, str(len(by_binary)), ", ".join(same) or "none"])
    return "levels", ["network", "binaries of TVM's levels", "levels that make one binary"], rows


def floors(documents: Mapping[str, Any]) -> Table:
    """Return the time that no choice of passes can save: lowering and code generation of the quickest compile."""
    heads = ["network", "-O3", "best", "its passes", "its lowering and code generation", "most that could be saved"]
    rows = []
    for name, document in documents.items():
        if "compile_time" not in document:
            continue
        lowering = dialect(document["compile_time"]["toolchain"]["dialect"]).builds[0].to_json()
        if document["compile_time"]["best"]["build"] == lowering:
            baseline, best = (document["compile_time"][key] for key in ("baseline", "best"))
            floor_s = best["compile_s"] - best["apply_s"]
            seconds = [baseline["compile_s"], best["compile_s"], best["apply_s"], floor_s]
            rows.append([name, *(f"{each:.1f} s" for each in seconds), share(1 - floor_s / baseline["compile_s"])])
    return "floors", heads, rows


def passes(documents: Mapping[str, Any]) -> Table:
    """Return the passes that take most of -O3's compile time."""
    rows = []
    for name, document in documents.items():
        profile = document.get("profile", {}).get("O3")
        if profile:
            slowest = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in list(profile["passes"].items())[:5])
            rows.append([name, f"{profile['build_s']:.1f} s", slowest, f"{profile['write_s']:.1f} s"])
    return "passes", ["network", "-O3 builds in", "the five longest passes", "then writes kernels in"], rows
