"""A slowdown that is certain is named to the kernel and the exchange, by engines that sleep for known times."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from passsearch.core import CheckInputs, TensorType
from passsearch.engines import EngineFailure, EngineSpec
from passsearch.errors import EnvironmentFault, UserError
from passsearch.studies import AFTER, BEFORE, RegressionQuestion, Variant, find_regression, regression, regression_side

ADAPTER = """
import time
from passsearch.engines.contract import KernelCall

class Sleeping:
    threads, versions = 1, {"sleeping": "1.0"}

    def __init__(self, inputs, conv_s, shift, kernels, starts):
        self.settings, self.conv_s, self.shift, self.shown = {}, conv_s, shift, kernels
        if starts:
            with open(starts["file"], "a+") as file:
                file.write("x")
                file.seek(0)
                if len(file.read()) > starts["most"]:
                    raise RuntimeError("it starts no more")

    def outputs(self, inputs):
        return [array + self.shift for array in inputs.values()]

    def infer(self):
        time.sleep(self.conv_s + 0.001)

    def kernels(self, runs):
        if not self.shown:
            raise NotImplementedError("it has none")
        return [KernelCall("conv 1", self.conv_s, "conv", "1x4"), KernelCall("relu 2", 0.001, "relu", "1x4")]

def open_engine(model, *, threads, inputs, conv_s=0.002, shift=0.0, kernels=True, starts=None):
    return Sleeping(inputs, conv_s, shift, kernels, starts)
"""
TYPES = {"x": TensorType((1, 4), "float32")}


@pytest.fixture
def sleeping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., EngineSpec]:
    """Return a function that makes an engine with the adapter's settings; timings have few processes."""
    (tmp_path / "sleeping_engine.py").write_text(ADAPTER)
    few = {"PROCESSES": 2, "LEAST_PROCESSES": 2, "ROUNDS": 2, "KERNEL_PROCESSES": 1}
    few |= {"EXCHANGE_PROCESSES": 2, "EXCHANGE_ROUNDS": 2}
    for name, value in few.items():
        monkeypatch.setattr(regression, name, value)

    def make(name: str, **settings: object) -> EngineSpec:
        environment = {"PYTHONPATH": str(tmp_path)}
        return EngineSpec(
            name,
            "sleeping_engine",
            Path(sys.executable),
            tmp_path / "sleeping_engine.py",
            settings=settings,
            environment=environment,
        )

    return make


def question(before: EngineSpec, after: EngineSpec | str, reference: EngineSpec, folder: Path) -> RegressionQuestion:
    return RegressionQuestion(
        names=("old", "new"),
        specs=(before, after),
        references=[reference],
        types=TYPES,
        inputs=CheckInputs(TYPES),
        threads=1,
        limit=1e-4,
        batch=1,
        folder=folder,
        threshold=0.02,
    )


@pytest.mark.slow
def test_the_kernel_and_the_setting_that_cost_most_are_named(
    sleeping: Callable[..., EngineSpec], tmp_path: Path
) -> None:
    def broken(_: str) -> EngineSpec:
        raise EngineFailure("it does not compile")

    variants = (
        Variant("n=1 in place of 2", "setting", lambda name: sleeping(name, conv_s=0.03)),
        Variant("m=1 in place of 2", "setting", lambda name: sleeping(name, conv_s=0.002)),
        Variant("without X", "pass", broken),
    )
    pair = sleeping(BEFORE), sleeping(AFTER, conv_s=0.03)
    asked = replace(question(*pair, sleeping("reference"), tmp_path), variants=variants)
    found = find_regression(asked)
    assert (found.verdict, found.regressed) == ("slower", True)
    assert found.confirmation is not None
    assert found.kernels is not None and found.exchanges is not None and found.outside_s is not None
    assert (found.kernels[0].operator, found.kernels[0].shape) == ("conv", "1x4")
    assert found.kernels[0].share == pytest.approx(1.0, abs=0.2)
    assert abs(found.outside_s) < 0.006
    assert found.named == {"exchange": "m=1 in place of 2", "kernel": "conv 1x4"}
    assert found.exchanges[0].explained == pytest.approx(1.0, abs=0.2)
    assert {row.failure for row in found.exchanges} == {"", "it does not compile"}


@pytest.mark.slow
def test_without_a_profiler_the_reason_stands_in_place_of_kernels(
    sleeping: Callable[..., EngineSpec], tmp_path: Path
) -> None:
    pair = sleeping(BEFORE), sleeping(AFTER, conv_s=0.03, kernels=False)
    found = find_regression(replace(question(*pair, sleeping("reference"), tmp_path), no_variants="no reason to"))
    assert (found.kernels, found.no_kernels) == (None, "`new` shows no kernels: it has none")
    assert (found.exchanges, found.no_exchanges) == (None, "no reason to")


def test_one_that_computes_something_else_fails_and_is_no_slowdown(
    sleeping: Callable[..., EngineSpec], tmp_path: Path
) -> None:
    asked = question(sleeping(BEFORE), sleeping(AFTER, shift=1.0), sleeping("reference"), tmp_path)
    found = find_regression(asked)
    assert (found.verdict, found.regressed, found.kernels) == ("fails", True, None)
    side = regression_side(asked, found.records[AFTER], "new", failure="")
    assert "outputs deviate" in side.failure
    assert (side.latency_s, side.throughput_per_s) == (None, None)
    assert side.unavailable["latency_s"] == side.failure
    with pytest.raises(UserError, match=r"`old` has no result to compare with: outputs deviate"):
        find_regression(replace(asked, specs=(sleeping(BEFORE, shift=1.0), sleeping(AFTER))))


def test_one_that_fails_in_a_later_process_fails_and_keeps_what_was_measured(
    sleeping: Callable[..., EngineSpec], tmp_path: Path
) -> None:
    starts = {"file": str(tmp_path / "starts"), "most": 2}
    pair = sleeping(BEFORE), sleeping(AFTER, conv_s=0.03, starts=starts)
    asked = question(*pair, sleeping("reference"), tmp_path)
    found = find_regression(asked)
    assert (found.verdict, found.failure) == ("fails", "RuntimeError: it starts no more, in a later process")
    side = regression_side(asked, found.records[AFTER], "new", failure=found.failure)
    assert side.latency_s is not None and "latency_s" not in side.unavailable
    assert found.ratios["fastest"] is not None


@pytest.mark.slow
@pytest.mark.parametrize(("most", "kernels"), [(4, 0), (5, 2)])
def test_a_slowdown_stays_one_whatever_fails_after_it(
    sleeping: Callable[..., EngineSpec], tmp_path: Path, most: int, kernels: int
) -> None:
    def faulty(_: str) -> EngineSpec:
        raise EnvironmentFault("the disk is full")

    # The reference starts once in each process, beside both sides.
    starts = {"file": str(tmp_path / "starts"), "most": most}
    variants = (Variant("n=1", "setting", lambda name: sleeping(name)), Variant("without X", "pass", faulty))
    asked = question(sleeping(BEFORE), sleeping(AFTER, conv_s=0.03), sleeping("reference", starts=starts), tmp_path)
    found = find_regression(replace(asked, variants=variants))
    assert found.verdict == "slower"
    assert len(found.kernels or ()) == kernels
    assert ("it starts no more" in found.no_kernels) == (not kernels)
    assert found.exchanges is not None
    assert "it starts no more" in found.exchanges[0].failure
    assert found.exchanges[1].failure == "the disk is full"


@pytest.mark.slow
def test_a_side_that_fails_beside_an_exchange_costs_no_slowdown(
    sleeping: Callable[..., EngineSpec], tmp_path: Path
) -> None:
    starts = {"file": str(tmp_path / "starts"), "most": 5}
    pair = sleeping(BEFORE), sleeping(AFTER, conv_s=0.03, starts=starts)
    variants = (Variant("n=1", "setting", lambda name: sleeping(name)),)
    found = find_regression(replace(question(*pair, sleeping("reference"), tmp_path), variants=variants))
    assert (found.verdict, len(found.kernels or ())) == ("slower", 2)
    assert found.exchanges is not None
    assert "failed beside it: RuntimeError: it starts no more" in found.exchanges[0].failure


def test_an_interrupt_keeps_the_slowdown(sleeping: Callable[..., EngineSpec], tmp_path: Path) -> None:
    def interrupted(_: str) -> EngineSpec:
        raise KeyboardInterrupt

    variants = (Variant("n=1", "setting", interrupted),)
    asked = question(sleeping(BEFORE), sleeping(AFTER, conv_s=0.03), sleeping("reference"), tmp_path)
    found = find_regression(replace(asked, variants=variants))
    assert (found.verdict, len(found.kernels or ())) == ("slower", 2)
    assert (found.exchanges, found.no_exchanges) == (None, "the command was interrupted")


def test_one_binary_is_never_slower_in_one_runtime(sleeping: Callable[..., EngineSpec], tmp_path: Path) -> None:
    pair = [replace(sleeping(name), about={"binary": "0f"}) for name in (BEFORE, AFTER)]
    found = find_regression(question(*pair, sleeping("reference"), tmp_path))
    assert (found.verdict, found.no_kernels) == (
        "no certain difference",
        "both sides are the same binary in the same runtime",
    )
    assert found.remarks == ("both sides are the same binary in the same runtime, so a difference is noise",)
    other = replace(pair[1], python=Path(sys.executable).with_name("other"))
    assert not regression._is_same(pair[0], other)
