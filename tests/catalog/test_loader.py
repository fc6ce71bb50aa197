import json
from pathlib import Path

import pytest
import yaml

from passsearch.analysis import feature_names
from passsearch.catalog import Catalog, find_entry, insert_prerequisites, load, read_yaml
from passsearch.core import BuildOptions, Candidate, Pipeline
from passsearch.errors import UserError

PAPER = json.loads((Path(__file__).parent / "data" / "table4.json").read_text())
DIALECT = "relay"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load(DIALECT)


def user_file(folder: Path, **fields: object) -> Path:
    entry = {"name": "Mine", "summary": "Does mine.", "factory": "my_passes:mine", "opt_level": 2, **fields}
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({"passes": [entry]}))
    return path


def test_catalog_holds_every_pass_of_the_paper_with_its_categories(catalog: Catalog) -> None:
    assert len(PAPER["categories"]) == 28
    ours = {name: list(entry.paper) for name, entry in catalog.entries.items() if entry.paper}
    assert ours == PAPER["categories"]


def test_evidence_may_contradict_only_categories_of_the_paper(tmp_path: Path) -> None:
    evidence = {"RN": "Changed 0 of 90 IRs."}
    path = user_file(tmp_path, paper=["RN"], contradicted=evidence)
    assert load(DIALECT, path).entry("Mine").contradicted == evidence
    with pytest.raises(UserError, match=r"`Mine`: unknown field `contradicted.MN`; allowed: RN"):
        load(DIALECT, user_file(tmp_path, paper=["RN"], contradicted={"MN": "Changed 0 of 90 IRs."}))


@pytest.mark.parametrize("name", PAPER["sequences"])
def test_sequences_of_the_paper_are_verbatim(catalog: Catalog, name: str) -> None:
    steps = catalog.sequence(name).pipeline.passes
    assert [step.name for step in steps] == PAPER["sequences"][name]


def test_every_shipped_entry_is_complete(catalog: Catalog) -> None:
    for entry in catalog.entries.values():
        assert entry.tvm, entry.name
        assert entry.source, entry.name
        assert entry.summary.endswith("."), entry.name
        assert all(parameter.meaning for parameter in entry.parameters), entry.name


def test_entries_refer_to_existing_features(catalog: Catalog) -> None:
    for entry in catalog.entries.values():
        features = {*entry.features, *(feature for need in entry.needs for feature in need.when)}
        assert features <= feature_names(), entry.name
    for sequence in catalog.sequences.values():
        assert set(sequence.features) <= feature_names(), sequence.name


def test_networks_with_channels_last_have_a_baseline_that_converts_them_first(catalog: Catalog) -> None:
    assert catalog.baselines(()) == ()
    [baseline] = catalog.baselines({"channels_last_convolution"})
    assert (str(baseline.pipeline), baseline.build.opt_level) == ('ConvertLayout{layout="NCHW"}', 3)
    assert not catalog.sequence(baseline.name).starts_search


def test_excluded_passes_have_a_reason(catalog: Catalog) -> None:
    for name in ("FirstOrderGradient", "LambdaLift", "ManifestLifetimes"):
        entry = catalog.entry(name)
        assert entry.role == "excluded"
        assert entry.reason


def test_a_search_uses_only_the_fast_evaluator_of_constants(catalog: Catalog) -> None:
    assert [str(spec) for spec in catalog.entry("FoldConstant").variants()] == ['FoldConstant{evaluator="numpy"}']


def test_variants_combine_alternatives_without_arguments_for_defaults(catalog: Catalog) -> None:
    assert {str(spec) for spec in catalog.entry("CombineParallelDense").variants()} == {
        "CombineParallelDense",
        "CombineParallelDense{to_batch=false}",
        "CombineParallelDense{min_num_branches=2}",
        "CombineParallelDense{min_num_branches=2,to_batch=false}",
    }


def test_samples_have_all_required_arguments(catalog: Catalog) -> None:
    assert catalog.entry("SplitArgs").argument_sets() == ({"max_function_args": 0},)


def test_needs_depend_on_the_network(catalog: Catalog) -> None:
    entry = catalog.entry("AlterOpLayout")
    assert entry.missing_before((), {"batch_norm"}) == ("SimplifyInference",)
    assert entry.missing_before(("SimplifyInference",), {"batch_norm"}) == ()
    assert entry.missing_before((), ()) == ()


def test_prerequisites_are_inserted_before_the_passes_that_need_them(catalog: Catalog) -> None:
    paper = Pipeline.parse("AlterOpLayout,FuseOps")
    completed = insert_prerequisites(paper, catalog, features={"batch_norm", "quantize"})
    assert str(completed) == "SimplifyInference,AlterOpLayout,qnn.CanonicalizeOps,FuseOps"


@pytest.mark.parametrize(
    ("version", "supported"), [("0.16.dev0", True), ("0.8.0", True), ("0.7", False), ("0.20", False)]
)
def test_version_range(catalog: Catalog, version: str, supported: bool) -> None:
    assert catalog.entry("FuseOps").supports(version) is supported


@pytest.mark.parametrize(
    ("passes", "build", "approximates"),
    [
        ("SimplifyInference,FuseOps", BuildOptions(3), False),
        ("SimplifyInference,FastMath", BuildOptions(), True),
        ("ToMixedPrecision", BuildOptions(), True),
        ("NotInTheCatalog", BuildOptions(), True),
        ("", BuildOptions(4), True),
        ("", BuildOptions(4, disabled=("FastMath",)), False),
        ("", BuildOptions(0, required=("FastMath",)), True),
    ],
)
def test_passes_that_may_change_numerics_count_in_pipeline_and_build(
    catalog: Catalog, passes: str, build: BuildOptions, approximates: bool
) -> None:
    assert catalog.approximates(Candidate(Pipeline.parse(passes), build)) is approximates


@pytest.mark.parametrize("wrong", ["FoldConst", "foldconstant", "FoldConstnat"])
def test_unknown_pass_suggests_a_similar_name(catalog: Catalog, wrong: str) -> None:
    with pytest.raises(UserError, match="did you mean `FoldConstant`") as error:
        catalog.entry(wrong)
    assert str(error.value) == (
        f"Unknown pass `{wrong}` in dialect `{DIALECT}`; did you mean `FoldConstant`? "
        f"See: passsearch catalog list --dialect {DIALECT}"
    )


def test_unknown_sequence_suggests_a_similar_name(catalog: Catalog) -> None:
    with pytest.raises(UserError, match="did you mean `AS-0`"):
        catalog.sequence("AS0")


def test_a_sequence_in_place_of_a_pass_is_named_with_its_passes(catalog: Catalog) -> None:
    with pytest.raises(UserError, match="it is a sequence, of AlterOpLayout,FuseOps,SimplifyExpr,"):
        catalog.entry("AS-0")
    with pytest.raises(UserError, match="Unknown sequence `FuseOps` in dialect `relay`: it is a pass"):
        catalog.sequence("FuseOps")


def test_a_level_written_out_says_how_it_differs_from_the_level(catalog: Catalog) -> None:
    for sequence in (catalog.sequence(f"O{level}-passes") for level in (1, 2, 3, 4)):
        assert ("numpy" in sequence.summary) == ("numpy" in str(sequence.pipeline)), sequence.name
        assert ("look first" in sequence.summary) == ("look_first" in str(sequence.pipeline)), sequence.name


def test_unknown_dialect_lists_the_dialects() -> None:
    with pytest.raises(UserError, match=f"Unknown dialect `rely`; the catalog has: .*{DIALECT}"):
        load("rely")


def test_users_file_adds_a_pass_that_sequences_may_use(tmp_path: Path) -> None:
    path = user_file(tmp_path, parameters={"depth": {"type": "int", "default": 1, "alternatives": [1, 4]}})
    entry = load(DIALECT, path).entry("Mine")
    assert entry.factory == "my_passes:mine"
    assert entry.origin == str(path)
    assert [str(spec) for spec in entry.variants()] == ["Mine", "Mine{depth=4}"]


def test_a_users_pass_needs_a_new_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"`FuseOps` is already declared in `.*fusion.yaml`"):
        load(DIALECT, user_file(tmp_path, name="FuseOps"))


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("factory", "my_passes.mine", "`module:function`"),
        ("opt_level", "3", "a whole number from 0 to 5"),
        ("opt_level", True, "a whole number from 0 to 5"),
        ("role", "maybe", "candidate | additional | excluded"),
        ("numerics", "rough", "exact | reassociates | approximate"),
        ("paper", ["XX"], "BL | RN | MN | SSD | BR | AD"),
        ("conflicts", "FuseOps", "a list of texts, such as [FuseOps]"),
        ("needs", ["FuseOp"], "names of passes in the catalog"),
        ("before", ["NoSuchPass"], "names of passes in the catalog"),
        ("classes", ["RM"], "all | RN | MN | SSD | BR"),
        ("repeat", 0, "a whole number from 1 to 9"),
        ("tvm", "0.8+", "a version range"),
        ("tolerance", 0.1, "0 where numerics is exact"),
        ("optlevel", 3, "did you mean `opt_level`?"),
    ],
)
def test_a_mistake_is_one_line_with_file_entry_field_value_and_choice(
    tmp_path: Path, field: str, value: object, allowed: str
) -> None:
    path = user_file(tmp_path, **{field: value})
    with pytest.raises(UserError) as error:
        load(DIALECT, path)
    text = str(error.value)
    assert "\n" not in text
    assert all(part in text for part in (str(path), "pass `Mine`", f"field `{field}`", allowed))


@pytest.mark.parametrize(
    ("parameter", "field"),
    [
        ({"type": "integer", "default": 1}, "type"),
        ({"type": "int", "default": 1, "alternatives": ["two"]}, "alternatives"),
        ({"type": "int", "default": "one"}, "default"),
        ({"type": "int"}, "alternatives"),
        ({"type": "str", "default": "a", "choices": ["b"]}, "default"),
        ({"type": "mapping", "default": None, "per_kernel": {"rosw": [1, 2]}}, "per_kernel"),
        ({"type": "mapping", "default": None, "per_kernel": {"depth": [1, 2]}}, "per_kernel"),
        ({"type": "mapping", "default": None, "regions": "nonsense", "region_values": [0, 1]}, "regions"),
        ({"type": "mapping", "default": None, "regions": "mine:regions"}, "region_values"),
        ({"type": "mapping", "default": None, "regions": "mine:regions", "region_values": [0]}, "region_values"),
        ({"type": "mapping", "default": None, "region_values": [0, 1]}, "regions"),
    ],
)
def test_mistakes_in_parameters_give_the_path_of_the_field(
    tmp_path: Path, parameter: dict[str, object], field: str
) -> None:
    with pytest.raises(UserError, match=f"field `parameters.depth.{field}`"):
        load(DIALECT, user_file(tmp_path, parameters={"depth": parameter}))


def test_role_other_than_candidate_needs_a_reason(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"field `reason`.*role is `excluded`"):
        load(DIALECT, user_file(tmp_path, role="excluded"))


def test_passes_may_not_need_each_other(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="field `needs`"):
        load(DIALECT, user_file(tmp_path, needs=["Mine"]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("passes: [", "not valid YAML at line"),
        ("passes: 3", "allowed: a list"),
        ("passes: [3]", "pass 1"),
        ("pases: []", "did you mean `passes`"),
        ("just text", "allowed: a mapping"),
        ("passes: [{name: my-pass, summary: t}]", "field `name`.*allowed: letters, digits"),
        ("passes: []\nsequences: []\npasses: []", "at line 3, column 1: `passes` stands in this mapping a second time"),
        ("passes: [{name: Mine, needs: [FuseOps], needs: [FoldConstant]}]", "`needs` stands .* keep one of them"),
        ("passes: [{parameters: {depth: {type: int}, depth: {type: int}}}]", "`depth` stands"),
        ("classes: [{when: {feature: attention}}]", "class `1`, field `name`"),
        ("classes: [{name: XN, titel: Mine, when: {feature: attention}}]", "did you mean `title`"),
        ("classes: [{name: all, when: {feature: attention}}]", "class `all`, field `name`.*any name but `all`"),
        ("classes: [{name: unknown, when: {feature: attention}}]", "class `unknown`, field `name`"),
        ("classes: [{name: RN, when: {feature: attention}}]", "`RN` is already declared in `.*classes.yaml`"),
        ("sequences: [{name: s, summary: t, pipeline: 'FuseOps{'}]", "field `pipeline`"),
        ("sequences: [{name: s, summary: t, pipeline: FuzeOps}]", "did you mean `FuseOps`"),
        (
            "sequences: [{name: s, summary: t, pipeline: FuseOps, build: {opt_level: 9}}]",
            "field `build.opt_level`",
        ),
    ],
)
def test_broken_files_are_one_line_errors(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as error:
        load(DIALECT, path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Cannot read the catalog file .*No such file"):
        load(DIALECT, tmp_path / "nowhere.yaml")


def test_a_users_pass_may_serve_a_users_class(tmp_path: Path) -> None:
    path = user_file(tmp_path, classes=["XN"])
    rules = tmp_path / "rules.yaml"
    rules.write_text("classes: [{name: XN, when: {feature: attention}}]")
    assert load(DIALECT, path, rules).entry("Mine").classes == ("XN",)


def test_class_rules_of_a_users_file_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("classes: [{name: XN, when: [1, 2]}]")
    assert {"name": "XN", "when": [1, 2]} in load(DIALECT, path).rules


def test_a_mapping_may_replace_a_value_that_it_merges(tmp_path: Path) -> None:
    path = tmp_path / "merged.yaml"
    # `second` is merged into another mapping before it is read itself.
    path.write_text("- [&first {a: 1}]\n- [[&second {<<: *first, a: 2}]]\n- {<<: *second, b: 3}\n")
    document = read_yaml(path, what="file")
    assert document[:2] == [[{"a": 1}], [[{"a": 2}]]]  # type: ignore[index]


def test_a_pass_is_found_in_the_first_dialect_that_has_it() -> None:
    assert find_entry("ScheduleCPU", ["relay", "relax"]).factory.startswith("passsearch.standalone.relax.")
    assert find_entry("FoldConstant", ["relay", "relax"]).factory.startswith("passsearch.standalone.relay.")
    with pytest.raises(UserError, match="Unknown pass `Fold`"):
        find_entry("Fold", ["relay", "relax"])
