import pytest

from passsearch.catalog import Catalog, bind_arguments, bind_pipeline, drop_conflicts, load, warn_of_conflicts
from passsearch.core import NOTICE_LOG, PassSpec, Pipeline
from passsearch.errors import UserError


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load("relay")


def test_arguments_stay_as_they_are_without_defaults(catalog: Catalog) -> None:
    spec = PassSpec.of("CombineParallelDense", to_batch=False)
    assert bind_arguments(spec, catalog.entry(spec.name)) == {"to_batch": False}


@pytest.mark.parametrize("name", ["FuseOps", "ConvertLayout", "FoldConstant", "CombineParallelDense"])
def test_every_variant_of_an_entry_binds(catalog: Catalog, name: str) -> None:
    entry = catalog.entry(name)
    assert all(bind_arguments(spec, entry) == spec.argument_values for spec in entry.variants())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FuseOps{level=2}", "Unknown parameter `level` of pass `FuseOps`"),
        ("FuseOps{fuse_optlevel=2}", "did you mean `fuse_opt_level`"),
        ("FastMath{depth=2}", "it takes none"),
        ("FuseOps{fuse_opt_level=true}", "takes `-1` | `0`"),
        ("FuseOps{fuse_opt_level=7}", "got `7`"),
        ('CombineParallelDense{min_num_branches="two"}', "takes int; got `two`"),
        ("CombineParallelDense{min_num_branches=true}", "takes int; got `True`"),
        ("ConvertLayout{layout=null}", "takes `NCHW` | `NHWC`"),
        ("SplitArgs", "needs its parameter `max_function_args`"),
        ("FuzeOps", "did you mean `FuseOps`"),
    ],
)
def test_invalid_arguments_are_user_errors(catalog: Catalog, text: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        bind_pipeline(Pipeline.parse(text), catalog)
    assert message in str(error.value)
    assert "passsearch catalog" in str(error.value)


def test_null_is_allowed_if_it_is_the_default(catalog: Catalog) -> None:
    entry = catalog.entry("RemoveUnusedFunctions")
    assert bind_arguments(PassSpec.of(entry.name, entry_functions=None), entry) == {"entry_functions": None}


@pytest.mark.parametrize("place", ["first", "-1", ""])
def test_regions_are_named_by_numbers(place: str) -> None:
    entry = load("relax").entry("Winograd")
    assert bind_arguments(PassSpec.of("Winograd", convolutions={"0": 4}), entry) == {"convolutions": {"0": 4}}
    with pytest.raises(UserError, match=f"`convolutions` of pass `Winograd` names regions by .* from 0; got `{place}`"):
        bind_arguments(PassSpec.of("Winograd", convolutions={place: 4}), entry)


def test_all_conflicts_of_a_pipeline_are_one_warning_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    relax = load("relax")
    warn_of_conflicts(Pipeline.parse("LegalizeOps,ScheduleRows,ScheduleCPU"), relax)
    assert not caplog.records
    warn_of_conflicts(Pipeline.parse("FuseOps,CutFusion,ScheduleCPU,ScheduleRows,ScheduleRows"), relax)
    [record] = caplog.records
    message = record.getMessage()
    assert record.name == NOTICE_LOG and record.levelname == "WARNING" and "\n" not in message
    assert message.startswith("`CutFusion` after `FuseOps`, `ScheduleRows` after `ScheduleCPU`: the catalog says")
    assert "`passsearch catalog show PASS --dialect relax`" in message


@pytest.mark.parametrize(
    ("proposed", "kept"),
    [
        ("LegalizeOps,ScheduleCPU,ScheduleRows", "LegalizeOps,ScheduleCPU"),
        ("LegalizeOps,ScheduleRows,ScheduleCPU", "LegalizeOps,ScheduleRows,ScheduleCPU"),
        # FuseTIR needs FuseOps, which conflicts here; neither is kept.
        ("LegalizeOps,DataflowUseInplaceCalls,FuseTIR", "LegalizeOps,DataflowUseInplaceCalls"),
    ],
)
def test_a_pass_that_conflicts_is_dropped_with_its_prerequisites(proposed: str, kept: str) -> None:
    assert str(drop_conflicts(Pipeline.parse(proposed), load("relax"), features=())) == kept


@pytest.mark.parametrize("dialect", ["relay", "relax"])
def test_no_sequence_that_a_search_starts_from_has_a_conflict(dialect: str) -> None:
    shipped = load(dialect)
    tried = [sequence for sequence in shipped.sequences.values() if sequence.starts_search]
    assert tried and not any(shipped.conflicts(sequence.pipeline) for sequence in tried)
