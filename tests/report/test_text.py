"""Texts of results."""

from dataclasses import replace
from typing import Any

import pytest

from passsearch.report import audit_text, headline_text, result_html, result_text, verdict_text
from passsearch.report.formatting import format_latency_ms
from passsearch.report.listings import run_outcome
from passsearch.report.text import special_lines
from passsearch.results import Audit, Check, Compiler, Device, Latency, Outputs, RunResult

read = RunResult.from_json


def test_result_shows_setup_verdict_and_evidence(result: dict[str, Any]) -> None:
    text = result_text(read(result), width=120)

    for expected in (
        "network: resnet18, batch 1 (zoo:resnet18)",
        "class: RN (8 residual adds, first at %14; 4 stages of 2 blocks)",
        "verdict: no significant improvement in throughput: 1.004 [0.996, 1.012] (noise floor 0.4 %)",
        "space: 612 sequences proposed, 61 states, 40 measured, 31 binaries, 530 duplicates, 3 invalid; not closed",
        "failures: 2 crash (first in build: killed by SIGSEGV); 1 wrong_result",
        "search 8.3 (1.8 %), total 473",
        'best: SimplifyInference,AlterOpLayout,FoldConstant{evaluator="numpy"},FuseOps{fuse_opt_level=2}',
    ):
        assert expected in text


@pytest.mark.parametrize(
    ("verdict", "ratios", "expected"),
    [
        (
            {"improved": True, "ratio": 1.5, "interval": [1.4, 1.6]},
            {},
            "resnet18 runs 1.500 [1.400, 1.600] times faster than O3, and compiles 2.90 [2.71, 3.12] times faster.",
        ),
        (
            {"improved": True, "ratio": 1.5, "interval": [1.4, 1.6]},
            {"compile_time": {"ratio": 0.7, "interval": [0.01, 60.0]}},
            "resnet18 runs 1.500 [1.400, 1.600] times faster than O3.",
        ),
        ({}, {}, "resnet18 compiles 2.90 [2.71, 3.12] times faster than O3 at 1.004 [0.996, 1.012] of its speed."),
        (
            {"same_binary": True},
            {},
            "resnet18 compiles 2.90 [2.71, 3.12] times faster than O3 at the same speed (one binary).",
        ),
        ({}, {"throughput": {"ratio": 0.97, "interval": [0.95, 0.99]}}, "resnet18: no gain over O3 is shown."),
        ({}, {"compile_time": {"ratio": 1.2, "interval": [0.8, 1.6]}}, "resnet18: no gain over O3 is shown."),
        (
            {"improved": True, "objective": "compile_time", "ratio": 2.9, "interval": [2.71, 3.12]},
            {},
            "resnet18 compiles 2.90 [2.71, 3.12] times faster than O3 at 1.004 [0.996, 1.012] of its speed.",
        ),
        (
            {"improved": True, "objective": "compile_time", "ratio": 2.9, "interval": [2.71, 3.12]},
            {"throughput": None},
            "resnet18 compiles 2.90 [2.71, 3.12] times faster than O3.",
        ),
        (
            {"improved": False, "objective": "compile_time", "ratio": 1.04, "interval": [1.01, 1.07]},
            {"compile_time": {"ratio": 1.04, "interval": [1.01, 1.07]}},
            "resnet18 is undecided: compile time 1.040 [1.010, 1.070]",
        ),
        ({"improved": True, "objective": "energy", "ratio": 1.2, "interval": [1.1, 1.3]}, {}, "times lower energy"),
        ({"confirmed": False, "reason": "no time"}, {}, "resnet18: no gain is confirmed."),
    ],
    ids=[
        "faster",
        "faster, compile time undecided",
        "compiles faster",
        "one binary",
        "slower",
        "undecided",
        "compile time",
        "compile time alone",
        "compile time within the noise floor",
        "energy",
        "not confirmed",
    ],
)
def test_the_first_line_is_the_gain(
    result: dict[str, Any], verdict: dict[str, Any], ratios: dict[str, Any], expected: str
) -> None:
    result["verdict"] |= verdict
    result["ratios"] |= ratios
    assert expected in headline_text(read(result))
    assert " ".join(result_text(read(result), width=120).split()).startswith(headline_text(read(result)))


def test_table_has_what_was_timed_together_and_the_other_levels_stand_apart(result: dict[str, Any]) -> None:
    lines = result_text(read(result), width=120).splitlines()
    rows = [line.split() for line in lines if line.split()[:1] and line.split()[0] in ("O0", "O3", "O4", "best")]

    assert [row[0] for row in rows] == ["O3", "best", "O0", "O4"]
    winner = "best 29.09 [29.06, 29.12] 34.38 1.004 [0.996, 1.012] 7.38 2.90 [2.71, 3.12] 46.9 2"
    assert " ".join(rows[1]) == winner
    title = next(number for number, line in enumerate(lines) if line.startswith("other levels"))
    assert lines[title + 1].split()[0] == "latency" and lines[title + 3].startswith("O0")


def test_the_baseline_shows_its_confirmed_measurement(result: dict[str, Any]) -> None:
    [row] = [line for line in result_text(read(result), width=120).splitlines() if line.startswith("O3 ")]

    assert row.split() == ["O3", "29.21", "[29.18,", "29.24]", "34.23", "1.000", "21.4", "1.000", "46.8", "2"]


@pytest.mark.parametrize("width", [72, 80, 132])
def test_lines_fit_the_width_and_pipelines_are_never_broken(result: dict[str, Any], width: int) -> None:
    lines = result_text(read(result), width=width).splitlines()

    assert [line for line in lines if len(line) > width and result["best"]["pipeline"] not in line] == []
    assert any(result["best"]["pipeline"] in line for line in lines)


def test_a_null_or_missing_value_is_a_dash(result: dict[str, Any]) -> None:
    del result["best"]["artifact_bytes"]
    result["best"]["latency_s"] = None
    result["ratios"]["compile_time"]["interval"] = [2.7, None]
    [row] = [line for line in result_text(read(result), width=120).splitlines() if line.startswith("best ")]

    assert " ".join(row.split()) == "best – 34.38 1.004 [0.996, 1.012] 7.38 2.90 [2.70, –] – 2"
    assert "network: –" in result_text(read({**result, "model": {**result["model"], "name": ""}}))


def test_an_interrupted_run_says_how_to_continue(result: dict[str, Any]) -> None:
    assert "interrupted" not in result_text(read(result))
    assert "the same command continues the run" in result_text(read({**result, "interrupted": True}))


def test_two_objectives_show_the_front(result: dict[str, Any]) -> None:
    result["pareto"].append({**result["best"], "pipeline": "FuseOps", "compile_s": 2.16})
    text = result_text(read(result), width=120)

    assert "Pareto front: no other candidate is better in every objective" in text
    assert "2: FuseOps, then build at opt_level=0" in text


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (
            {"improved": True, "ratio": 1.153, "interval": [1.138, 1.171]},
            "improved: 1.153 [1.138, 1.171] times higher throughput than O3 (noise floor 0.4 %); compiles",
        ),
        (
            {"improved": True, "objective": "compile_time", "ratio": 2.9, "interval": [2.71, 3.12]},
            "improved: compiles 2.90 [2.71, 3.12] times faster than O3; "
            "throughput 1.004 [0.996, 1.012] times that of O3",
        ),
        (
            {"improved": False, "objective": "compile_time", "ratio": 1.01, "interval": [0.98, 1.04]},
            "no significant improvement in compile time: 1.010 [0.980, 1.040]",
        ),
        (
            {"improved": False, "ratio": 1.1, "interval": [0.8, 1.5], "noise_floor": 0.3},
            "undecided: throughput 1.100 [0.800, 1.500] (noise floor 30 %); more fresh compiles narrow the interval "
            "(--confirm N)",
        ),
        (
            {"improved": False, "objective": "compile_time", "ratio": 4.2, "interval": [4.1, 4.3]}
            | {"reason": "it is not certain that it keeps 0.98 of the throughput", "keeps_throughput": False},
            "no improvement: compile time 4.20 [4.10, 4.30] (noise floor 0.4 %), but it is not certain that it keeps "
            "0.98 of the throughput of O3",
        ),
        (
            {"improved": False, "objective": "compile_time", "ratio": 4.2, "interval": [4.1, 4.3]}
            | {"reason": "keeps less than 0.98 of the throughput", "keeps_throughput": False},
            "no improvement: compile time 4.20 [4.10, 4.30] (noise floor 0.4 %), but keeps less than 0.98 of the "
            "throughput of O3",
        ),
        (
            {"improved": False, "ratio": 0.955, "interval": [0.95, 0.989]},
            "worse in throughput than O3: 0.955 [0.950, 0.989] (noise floor 0.4 %)",
        ),
        (
            {"improved": False, "same_binary": True, "ratio": 0.999, "interval": [0.99, 1.01]},
            "same binary as O3, so the same throughput (measured: 0.999 [0.990, 1.010] (noise floor 0.4 %))",
        ),
        (
            {"improved": False, "objective": "memory", "ratio": 1.2, "interval": None},
            "no claim: memory ratio 1.200 in the search's own measurement",
        ),
        (
            {
                "confirmed": False,
                "ratio": 1.2,
                "interval": None,
                "reason": "another IR",
            },
            "not confirmed: throughput ratio 1.200 in the search's own measurement (another IR)",
        ),
    ],
)
def test_verdict_is_one_sentence(result: dict[str, Any], verdict: dict[str, Any], expected: str) -> None:
    result["verdict"] |= verdict

    assert verdict_text(read(result)).startswith(expected)
    assert "\n" not in verdict_text(read(result))


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        ({"ratio": 0.5, "interval": [0.4, 0.625]}, "takes 2.00 [1.60, 2.50] times as long to compile"),
        (
            {"ratio": 1.0, "interval": [0.9, 1.1]},
            "no significant difference in compile time from O3: 1.000 [0.900, 1.100]",
        ),
        (
            {"ratio": 2.1, "interval": [0.84, 5.25]},
            "undecided in compile time against O3: 2.10 [0.84, 5.25]",
        ),
        (
            {"ratio": 0.909, "interval": [0.009, 92.0]},
            "undecided in compile time against O3: 0.909, with an interval too wide to say anything",
        ),
        ({"ratio": 3.0, "interval": None}, "compiled 3.00 times as fast; one compile of each proves nothing"),
    ],
)
def test_compile_time_claim_follows_its_interval(result: dict[str, Any], ratio: dict[str, Any], expected: str) -> None:
    result["ratios"]["compile_time"] = ratio

    assert verdict_text(read(result)).endswith(expected)


def test_the_baseline_as_the_winner_is_not_compared_with_itself(result: dict[str, Any]) -> None:
    result["ratios"]["compile_time"] = {"ratio": 1.0, "interval": None}
    assert "compile" not in verdict_text(read(result))


def test_a_busy_machine_is_named_as_the_cause_of_a_refused_ratio(result: dict[str, Any]) -> None:
    result["verdict"] |= {"improved": False, "ratio": 1.45, "interval": [1.2, 1.7], "noise_floor": 0.4}
    assert "other processes" not in verdict_text(read(result)), "a quiet machine"
    result["best"]["conditions"] |= {"foreign_percent": 55.2, "steal_percent": 6.0}
    assert "measured while other processes took 61 % of the cores' time: measure on an idle" in verdict_text(
        read(result)
    )


def test_fewer_than_three_fresh_compiles_are_warned_about(result: dict[str, Any]) -> None:
    assert "warning" not in result_text(read(result))
    result["verdict"]["repetitions"] = 2
    assert "warning: 2 fresh compiles leave intervals wide; 3 are usual (--confirm 3" in result_text(
        read(result), width=200
    )
    assert "warning: 2 fresh compiles" in result_html(read(result))
    result["limits"] = {"trials": 40, "timeout_s": 100.0}
    text = result_text(read(result), width=200)
    assert "3 are usual (a longer --timeout leaves time for them)" in text and "--confirm" not in text


def test_numbers_agree_with_their_nouns_and_equal_numbers_are_no_change(result: dict[str, Any]) -> None:
    result["space"] |= dict.fromkeys(("sequences_asked", "states", "binaries", "duplicates"), 1)
    composition = {"pipeline": "p", "begin_s": 0.00237, "predicted_s": 0.00237, "bound_s": 0.00237, "decisions": []}
    result["composition"] = {**composition, "kernels": 1, "variants": 1, "combinations_log10": 0.0}
    for side in ("best", "baseline"):
        result[side]["compile_parts_s"] = {"passes": 0.694 if side == "best" else 0.687}
    text = result_text(read(result), width=200)
    assert "space: 1 sequence proposed, 1 state, 40 measured, 1 binary, 1 duplicate, 3 invalid" in text
    assert "1 kernel timed in 1 variant, which leave nothing to decide; predicted 2.37 ms an inference" in text
    assert "without constants: 0.687 s against 0.694 s, 0.99 times" in text
    result["composition"]["combinations_log10"] = 1.08
    assert "which decide between 12 combinations" in result_text(read(result), width=200)


@pytest.mark.parametrize(("interval", "is_shown"), [((3e-6, 1.391e-3), False), ((4e-5, 1.1e-4), True)])
def test_an_interval_of_two_processes_that_says_nothing_is_not_printed(
    interval: tuple[float, float], is_shown: bool
) -> None:
    text = format_latency_ms(Latency(6.8e-5, interval))
    assert ("too wide" in text) is not is_shown and text.startswith("0.068 [")


def test_rows_of_an_earlier_run_are_marked(result: dict[str, Any]) -> None:
    assert "recalled" not in result_text(read(result))
    level = next(row for row in result["baselines"] if row["name"] == "O0")
    level["recalled"] = result["best"]["recalled"] = True
    text = result_text(read(result), width=132)
    rows = [line.split()[0] for line in text.splitlines() if line.split()[:1] and line.split()[0].rstrip("*") == "O0"]
    assert rows == ["O0*"] and "\nbest* " in text and "\nO3 " in text
    assert "*: built or timed by an earlier run, and recalled from the fact cache; --fresh measures anew" in text
    assert 'class="best"><td>best*' in result_html(read(result))


@pytest.mark.parametrize(("factor", "is_shown"), [(1.0, True), (1.15, True), (0.87, True), (1.3, False), (0.7, False)])
def test_no_row_contradicts_itself(result: dict[str, Any], factor: float, is_shown: bool) -> None:
    baseline = next(row for row in result["baselines"] if row["name"] == "O3")
    level = next(row for row in result["baselines"] if row["name"] == "O0")
    ratio = baseline["latency_s"]["median"] / level["latency_s"]["median"]
    level["ratio"] = {"ratio": factor * ratio, "interval": None}
    text = result_text(read(result), width=132)
    [cells] = [line.split() for line in text.splitlines() if line.split()[:1] == ["O0"]]
    assert (cells[1] != "–") is is_shown
    assert ("latency –: timed while the machine had another load" in text) is not is_shown
    assert (">–<" in result_html(read(result)).partition("O0")[2][:60]) is not is_shown


@pytest.mark.parametrize(
    ("processes", "foreign", "is_shown"), [(6, 0.0, True), (6, 40.0, False), (2, 0.0, False), (None, 0.0, False)]
)
def test_medians_that_refute_a_confirmed_ratio_are_shown(
    result: dict[str, Any], processes: int | None, foreign: float, is_shown: bool
) -> None:
    best, baseline = (result[row]["latency_s"]["median"] for row in ("best", "baseline"))
    result["ratios"]["throughput"] = {"ratio": 1.4 * baseline / best, "interval": None}
    result["verdict"]["processes"], result["best"]["latency_s"]["processes"] = processes, 6
    result["best"]["conditions"] = {**(result["best"].get("conditions") or {}), "foreign_percent": foreign}
    text = result_text(read(result), width=132)
    [cells] = [line.split() for line in text.splitlines() if line.split()[:1] == ["best"]]
    assert (cells[1] != "–") is is_shown, "on a busy machine, or with processes of its own, load explains it"
    assert ("another load than for the baseline" in text) is not is_shown


def test_times_of_kernels_from_earlier_runs_predict_nothing(result: dict[str, Any]) -> None:
    composition = {"pipeline": "p", "begin_s": 0.02, "predicted_s": 0.01, "bound_s": 0.01, "kernels": 3, "variants": 9}
    result["composition"] = {**composition, "combinations_log10": 4.0, "decisions": [], "recalled": 0}
    assert "predicted 10 ms instead of 20 ms" in result_text(read(result), width=200)
    result["composition"]["recalled"] = 2
    text = result_text(read(result), width=200)
    assert "2 of the times are of earlier runs, so they chose what to try and predict nothing" in text
    assert "predicted 10" not in text and "certificate" not in text


def test_a_search_for_little_memory_shows_it_and_says_why_it_is_not_confirmed(result: dict[str, Any]) -> None:
    assert "peak RAM MB" not in result_text(read(result), width=132)
    reason = "peak memory is read once, when outputs are compared, and a confirmation compares none"
    result["verdict"] |= {"objective": "memory", "objectives": ["memory"], "ratio": 1.2, "interval": None}
    result["verdict"] |= {"confirmed": False, "reason": reason}
    text = result_text(read(result), width=132)
    assert "peak RAM MB" in text and "planned MB" in text
    [baseline] = [line.split() for line in text.splitlines() if line.startswith("O3 ")]
    assert baseline[-2:] == ["61.9", "3.21"]
    assert f"not confirmed: memory ratio 1.200 in the search's own measurement ({reason})" in verdict_text(read(result))


def test_passes_without_effect_and_the_date_are_shown(result: dict[str, Any]) -> None:
    assert "without effect" not in result_text(read(result))
    result["space"] |= {"idle": ["MaximumToRelu"], "untried": ["ToMixedPrecision"]}
    text = result_text(read(result), width=132)
    assert "passes without effect: MaximumToRelu (applied, but no IR changed)" in text
    assert "passes not tried: ToMixedPrecision (the search ended before; give it more --trials" in text
    assert "date: 2026-11-24 18:35 UTC" in text


def test_a_reproducer_is_named(result: dict[str, Any]) -> None:
    result["reproducers"] = [{"passes": ["FastMath"], "folder": "reproducers/FastMath", "reason": "outputs deviate"}]
    assert "reproducer: FastMath in reproducers/FastMath: outputs deviate" in result_text(read(result), width=120)


AT = "2026-11-24T18:35:10+00:00"


def test_an_audit_names_the_check_that_failed() -> None:
    checks = (Check("IR", False, "after pass 2"), Check("binary", True, "equal"))
    audit = Audit("passsearch/1", AT, False, checks, {}, 0.95, None, None, None, Compiler("r", "d", "0.27"), Device())
    assert "refused: IR: after pass 2" in audit_text(audit)
    assert "signed off" in audit_text(replace(audit, checks=checks[1:]))


def test_deviation_of_the_winners_outputs_is_shown(result: dict[str, Any]) -> None:
    outputs = {"deviation": 1.2e-06, "tolerance": 2**-13, "top1_agreement": 1.0, "unavailable": {}}
    result["best"]["outputs"] = outputs
    expected = "outputs: best deviates by 1.2e-06 of the largest value, 0.00012 is allowed; top-1 agreement: 100 %"
    assert expected in result_text(read(result), width=120)
    outputs |= {"top1_agreement": None, "unavailable": {"top1_agreement": "no class scores"}}
    assert "top-1 agreement: – (no class scores)" in result_text(read(result), width=120)
    outputs["unstable"] = {"large": {"deviation": 0.033, "tolerance": 0.05}}
    text = " ".join(result_text(read(result), width=120).split())
    assert "on inputs `large`, where rounding changes the reference itself, by 0.033 of 0.05" in text


def test_sensor_columns_appear_only_with_readings(result: dict[str, Any]) -> None:
    assert "mJ" not in result_text(read(result), width=132)
    readings = {
        "energy_j": 1.5,
        "power_w": {"median": 21.0, "max": 30.0},
        "temperature_c": {"median": 50.0, "max": 61.0},
    }
    result["baseline"] |= readings
    table = {line.split()[0]: line.split() for line in result_text(read(result), width=132).splitlines() if line}
    assert table["O3"][-3:] == ["1500", "21.0", "61.0"]
    assert table["O2"][-3:] == ["–", "–", "–"]


def test_an_energy_gain_says_lower(result: dict[str, Any]) -> None:
    result["verdict"] |= {"objective": "energy", "improved": True, "ratio": 1.2, "interval": [1.1, 1.3]}
    assert "1.200 [1.100, 1.300] times lower energy" in verdict_text(read(result))


def test_the_result_says_who_found_the_winner_and_what_its_compile_time_is_spent_on(result: dict[str, Any]) -> None:
    assert "found by" not in result_text(read(result)), "recorded before sources were"
    result["best"]["source"] = {"kind": "sequence", "name": "layout-fuse"}
    parts = ("passes", "constants", "lowering", "codegen", "writing")
    result["best"]["compile_parts_s"] = dict(zip(parts, (1.0, 0.5, 2.0, 2.5, 0.5), strict=True))
    result["baseline"]["compile_parts_s"] = dict(zip(parts, (1.5, 14.0, 2.0, 2.5, 0.5), strict=True))
    text = result_text(read(result), width=132)
    assert "found by: the catalog, as the sequence layout-fuse" in text
    assert "compile seconds: best: passes 1.0, constants 0.5," in text
    assert "without constants: 6.50 s against 6.00 s, 1.08 times" in text


def test_estimators_that_contradict_each_other_are_both_shown(result: dict[str, Any]) -> None:
    assert "estimators" not in result_text(read(result))
    result["ratios"]["throughput_of_medians"] = {"ratio": 0.9, "interval": [0.88, 0.92]}
    assert "estimators: throughput by fastest runs 1.004 [0.996, 1.012], by medians 0.900 [0.880, 0.920]" in (
        result_text(read(result))
    )


def test_a_ratio_far_from_the_latencies_beside_it_is_explained(result: dict[str, Any]) -> None:
    result["ratios"]["throughput"] = {"ratio": 4.1, "interval": [2.3, 7.5]}
    result["ratios"]["throughput_of_medians"] = {"ratio": 2.8, "interval": [1.5, 5.2]}
    text = result_text(read(result), width=400)
    assert "throughput by fastest runs 4.10 [2.30, 7.50], by medians, as the latencies are, 2.80 [1.50, 5.20]" in text


def test_rows_that_a_table_does_not_have_are_not_explained(result: dict[str, Any]) -> None:
    assert "other rows: ratios to O3" in result_text(read(result), width=400)
    result["baselines"] = [row for row in result["baselines"] if row["name"] == result["baseline"]["name"]]
    alone = read({**result, "sequence": None, "pareto": []})
    assert "other rows" not in result_text(alone, width=400)


def test_a_composition_says_what_decided_between_how_many_and_what_it_predicts(result: dict[str, Any]) -> None:
    text = " ".join(result_text(read(result), width=400).split())
    expected = "kernels: 52 kernels timed in 372 variants, which decide between 10^17 combinations; predicted 9.76 ms"
    assert f"{expected} instead of 17.8 ms an inference" in text
    assert "kernels:" not in result_text(read({**result, "composition": None}))
    failure = {"kind": "timeout", "stage": "measure", "step": "", "reason": "the search ended"}
    assert "nothing was composed of single kernels: the search ended" in " ".join(
        result_text(read({**result, "composition": {"failure": failure}})).split()
    )
    inference_s = {"value": 0.01, "interval": [0.0098, 0.0102]}
    timed = result_text(
        read({**result, "composition": {**result["composition"], "inference_s": inference_s}}), width=400
    )
    assert "an inference; a whole inference is predicted to take 10.000 [9.800, 10.200] ms" in " ".join(timed.split())


def test_a_certificate_says_how_far_other_combinations_are_and_how_well_the_prediction_holds(
    result: dict[str, Any],
) -> None:
    composition = {**result["composition"], "predicted_s": 0.010, "bound_s": 0.0099}
    trial = {"name": "composed", "pipeline": composition["pipeline"], "latency_s": {"samples": [0.012, 0.011]}}
    measured = {**result, "composition": composition, "trials": [trial]}
    text = " ".join(result_text(read(measured), width=400).split())
    assert "certificate: of these combinations none is predicted to be more than 1 % faster" in text
    assert "its fastest inference takes 11 ms, 1.10 times what the kernels predict" in text
    text = " ".join(result_text(read({**measured, "trials": []}), width=400).split())
    assert "it was not measured as a whole" in text
    at_bound = {**measured, "composition": {**composition, "bound_s": 0.010}}
    assert "none is predicted to be faster; measured" in " ".join(result_text(read(at_bound), width=400).split())
    earlier = {**measured, "composition": {name: composition[name] for name in composition if name != "bound_s"}}
    assert "certificate:" not in result_text(read(earlier))


def test_estimates_that_contradict_each_other_are_undecided_whatever_the_fastest_say(result: dict[str, Any]) -> None:
    text = "the fastest runs say 22.4 times, the median runs 0.51 times"
    result["verdict"] |= {"improved": False, "ratio": 22.4, "interval": [12.9, 38.8], "disagreement": text}
    assert verdict_text(read(result)).startswith("undecided: throughput 22.4 [12.9, 38.8]") and text in verdict_text(
        read(result)
    )
    assert ". resnet18 is undecided" in headline_text(read(result)) and text in headline_text(read(result))
    assert run_outcome(read(result).verdict, is_interrupted=False) == "undecided"


def test_a_floor_that_is_no_estimate_is_no_number(result: dict[str, Any]) -> None:
    result["verdict"] |= {"noise_floor": 2.5e8, "improved": False, "ratio": 44.0, "interval": [0.001, 1e6]}
    assert "noise floor not estimated" in verdict_text(read(result)) and "44.0 [too wide]" in verdict_text(read(result))
    result["verdict"] |= {"noise_floor": None, "noise": 0.3, "processes": 2}
    assert (
        "too few processes to estimate a noise floor; equal builds or processes differed by up to 30 %"
        in verdict_text(read(result))
    )


def test_a_baseline_that_wins_is_not_compared_with_itself(result: dict[str, Any]) -> None:
    result["verdict"] |= {"objective": "compile_time", "confirmed": False, "reason": "no time"}
    assert "times that of O3" in verdict_text(read(result))
    result["best"] |= {"source": {"kind": "baseline", "name": "O3"}}
    assert verdict_text(read(result)) == "not confirmed: no time"


def test_what_is_recommended_instead_of_the_winner_is_said_with_the_reason(result: dict[str, Any]) -> None:
    loser = {"name": "", "pipeline": "FuseOps", "build": {"opt_level": 0}, "ratio": None}
    result["rejected"] = {**loser, "reason": "0.7 times the throughput of AS-1 of the catalog, beside it"}
    assert "not recommended: FuseOps, then build at opt_level=0: 0.7 times the throughput of AS-1" in (
        result_text(read(result), width=400)
    )
    result["verdict"] |= {"improved": False, "ratio": 0.7, "interval": [0.69, 0.71]}
    result["best"]["source"] = {"kind": "baseline", "name": "O3"}
    nothing = {"ratio": 1.0, "interval": None}
    result["ratios"] = {"throughput": nothing, "compile_time": nothing}
    assert headline_text(read(result)).endswith("resnet18: no gain over O3 is shown; O3 is the best.")


def test_without_a_confirmation_the_catalogs_sequence_is_named(result: dict[str, Any]) -> None:
    result["verdict"] |= {"confirmed": False, "interval": None, "reason": "no time"}
    result["best"] |= {"source": {"kind": "sequence", "name": "AS-1"}, "ratio": {"ratio": 44.0, "interval": None}}
    assert "AS-1 of the catalog is recommended, of which the search read 44.0 times" in headline_text(read(result))


def test_where_nothing_but_the_baseline_was_measured_no_ratio_is_printed(result: dict[str, Any]) -> None:
    result["verdict"] |= {"confirmed": False, "improved": False, "reason": "the time limit ended", "ratio": 1.0}
    result["space"]["states_measured"] = 1
    result["best"] |= {"source": {"kind": "baseline", "name": "O3"}, "ratio": {"ratio": 1.0, "interval": [1.0, 1.0]}}
    assert headline_text(read(result)).endswith("resnet18: nothing but O3 was measured, so no gain is known.")
    assert verdict_text(read(result)).startswith("not confirmed: the time limit ended")
    assert "[1.000, 1.000]" not in result_text(read(result), width=120)


def test_a_result_says_what_became_of_values_that_are_not_finite() -> None:
    dropped: dict[str, Any] = {"dropped": {"nan": 10}, "dropped_by_import": True, "dropped_by": ("max",)}
    outputs = Outputs(0.0, 2**-13, spread={"inf": 2}, **dropped)
    assert [text for _, text in special_lines(outputs)] == [
        "best drops values that are NaN or infinite: 10 on inputs `nan`, as the import does without passes (max)",
        "best adds values that are NaN or infinite: 2 on inputs `inf`",
    ]


def test_a_busy_machine_is_said_to_have_other_ratios(result: dict[str, Any]) -> None:
    result["verdict"]["repetitions"] = 3
    assert "a busy machine has other ratios" not in result_text(read(result), width=400)
    result["best"]["conditions"] = {"foreign_percent": 40.0, "steal_percent": 5.0}
    assert "other processes took 45 % of the cores' time, and a busy machine has other ratios" in (
        result_text(read(result), width=400)
    )
