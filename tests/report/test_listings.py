"""Texts of `doctor`, `toolchain`, `analyze` and `catalog`."""

from passsearch.report import (
    analysis_text,
    catalog_check_text,
    catalog_entry_html,
    catalog_entry_text,
    catalog_text,
    findings_text,
    runs_text,
    toolchains_text,
)
from passsearch.results import CatalogCheck, CheckedEntry, PassRelation, PassRelations


def test_findings_end_with_the_remedies() -> None:
    findings = [
        {"name": "c compiler", "ok": False, "detail": "none found", "remedy": "Install gcc."},
        {"name": "cores", "ok": None, "detail": "2 of 2 usable", "remedy": ""},
    ]

    text = findings_text(findings)

    assert "missing" in text
    assert text.endswith("to do:\nc compiler: Install gcc.")


def test_what_a_machine_may_do_without_is_optional() -> None:
    engine = {"name": "engine xla", "ok": None, "detail": "not installed", "remedy": "Run: install xla"}
    missing = {"name": "c compiler", "ok": False, "detail": "none found", "remedy": "Install gcc."}
    text = findings_text([engine, missing])
    assert text.endswith("to do:\nc compiler: Install gcc.\n\noptional:\nengine xla: Run: install xla")


def test_an_empty_toolchain_list_names_the_install_command() -> None:
    assert "passsearch toolchain install" in toolchains_text([])


def test_analysis_shows_evidence_and_reasons() -> None:
    document = {
        "model": "net.onnx",
        "operators": {"conv2d": 20, "add": 8},
        "fingerprint": {"residual_add": {"count": 8, "first": 14, "detail": "blocks of 2"}},
        "classes": [{"name": "RN", "evidence": ["8 residual adds, first at %14"]}],
        "passes": [{"name": "FuseOps", "reason": "serves every class"}],
        "dropped": [{"name": "ToCPS", "reason": "never searched: not for inference"}],
    }

    text = analysis_text(document)

    assert "operators: 20 conv2d, 8 add" in text
    assert "class RN: 8 residual adds, first at %14" in text
    assert [line.split() for line in text.splitlines() if "%14" in line][-1][:4] == [
        "residual",
        "add",
        "8",
        "%14",
    ]
    assert "never searched: not for inference" in analysis_text(document, has_all=True)


def test_an_analysis_counts_what_is_never_searched_and_names_the_nearest_classes() -> None:
    evidence = [*(f"not C{number} (title): a; b; c" for number in range(4)), "not NEAR (title): 0 `residual_add`"]
    dropped = [
        {"name": "ToCPS", "reason": "never searched: not for inference"},
        {"name": "FastMath", "reason": "needs fast math activation; this graph has none that depends on its input"},
    ]
    document = {"classes": [{"name": "unknown", "evidence": evidence}], "dropped": dropped}
    text = analysis_text(document)
    assert "FastMath" in text and "ToCPS" not in text
    assert "1 further pass of the catalog: never searched (--all lists them)" in text
    assert "not NEAR" in text and "the other 2" in text and "not C2" not in text
    assert "ToCPS" in analysis_text(document, has_all=True)


def test_entry_shows_parameters_with_their_searched_values() -> None:
    parameter = {
        "name": "layout",
        "type": "str",
        "required": False,
        "default": "NHWC",
        "alternatives": ("NCHW", "NHWC"),
    }
    needs = [{"name": "SimplifyInference", "when": ("batch_norm",)}]
    entry = {"name": "ConvertLayout", "contradicted": {"BL": "Slower."}, "parameters": [parameter], "needs": needs}
    text = catalog_entry_text(entry)

    assert "needs: SimplifyInference (if the network has batch_norm)" in text
    assert "NCHW, NHWC" in text
    assert "contradicted: BL: Slower." in text


def test_entry_shows_measured_relations_from_the_side_of_the_pass() -> None:
    pairs = [
        PassRelation("enables", "AnnotateTIROpPattern", "FuseOps", 3, 5, "chain", "LegalizeOps"),
        PassRelation("precedes", "FuseOps", "Plan", 1, 1, "chain", ""),
        PassRelation("precedes", "FuseOps", "Cut", 2, 3, "chain", ""),
        PassRelation("precedes", "Fold", "FuseOps", 2, 3, "chain", ""),
    ]
    relations = PassRelations("0.27.0", "2026-11-30", passes=71, networks=2, states=12, pairs=tuple(pairs))
    entry = {"name": "FuseOps", "summary": "Fuses.", "relations": relations.to_json()}
    text = catalog_entry_text(entry)

    note = (
        "measured for 71 passes of the catalog (of the passes that apply to each network) in 12 states of 2 networks "
        "(TVM 0.27.0, 2026-11-30). A state counts if it shows or contradicts the relation."
    )
    assert note in " ".join(text.split()) and note in catalog_entry_html(entry)
    rows = [line.split() for line in text.splitlines()]
    assert ["must", "precede", "Plan", "1", "of", "1", "chain"] in rows
    assert ["may", "fail", "unless", "before", "Cut", "2", "of", "3", "chain"] in rows
    assert ["may", "fail", "unless", "after", "Fold", "2", "of", "3", "chain"] in rows
    assert ["enabled", "by", "AnnotateTIROpPattern", "3", "of", "5", "chain", "after", "LegalizeOps"] in rows


def test_catalog_lists_passes_and_sequences() -> None:
    entry = {
        "name": "FuseOps",
        "opt_level": 0,
        "paper": ("BL",),
        "role": "candidate",
        "classes": ("all",),
        "summary": "Fuses.",
    }
    sequence = {"name": "AS-0", "summary": "The paper's.", "pipeline": "FuseOps,ToCPS"}

    text = catalog_text({"passes": [entry], "sequences": [sequence]})

    assert "Fuses." in text
    assert "FuseOps,ToCPS" in text
    assert "BL is the" in text.replace("\n ", "")
    without = catalog_text({"passes": [entry | {"paper": ()}], "sequences": [sequence]})
    assert "CF'22" not in without, "nothing of the paper is in a table without its passes"


def test_a_sequence_shows_its_passes_and_no_needs() -> None:
    text = catalog_entry_text({"name": "AS-0", "pipeline": "FuseOps,ToCPS", "source": "CF'22 table 5"})

    assert "pipeline: FuseOps,ToCPS" in text
    assert "needs" not in text


def test_catalog_check_counts_valid_entries() -> None:
    entries = (
        CheckedEntry("A"),
        CheckedEntry("B", ("crash: killed by SIGSEGV",)),
        CheckedEntry("C", skipped="needs TVM >=0.18"),
    )
    text = catalog_check_text(CatalogCheck("dev", "0.16", entries))

    assert "crash: killed by SIGSEGV" in text
    assert "not checked: needs TVM >=0.18" in text
    assert text.endswith("1 of 3 entries are valid for toolchain dev, TVM 0.16.")


def test_the_advice_on_old_runs_names_the_folder_that_was_listed() -> None:
    run = {"folder": "/data/my runs/a", "bytes": 1, "measured_at": "2026-01-01T00:00:00+00:00"}
    text = " ".join(runs_text({"folder": "/data/my runs", "runs": [run]}).split())
    assert "passsearch runs clean '/data/my runs' --older-than DAYS" in text
