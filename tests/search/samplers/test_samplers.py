"""Strategies on a made-up landscape, and the moves they make."""

from collections.abc import Mapping
from itertools import permutations

import numpy as np
import optuna
import pytest

from passsearch.catalog import load
from passsearch.core import Failure, PassSpec, Pipeline
from passsearch.errors import UserError
from passsearch.evaluate import Edge, StateGraph
from passsearch.search import BUILDS, Space
from passsearch.search.graph_space import GraphSpace
from passsearch.search.samplers import STRATEGIES, make_strategy, values_under_constraint
from passsearch.search.samplers import graph as graph_sampler

CATALOG = load("relay")
NAMES = ("SimplifyInference", "AlterOpLayout", "FoldConstant", "FuseOps")
KEYED = Space(CATALOG, tuple(CATALOG.entry(name) for name in NAMES), frozenset())


def graph() -> tuple[StateGraph, dict[str, frozenset[str]]]:
    """States are sets of passes; what every state holds."""
    found = StateGraph("")
    held = {"": frozenset[str]()}
    for size in range(len(KEYED.steps)):
        for chosen in permutations(KEYED.steps, size):
            here = "|".join(sorted(map(str, chosen)))
            for step in KEYED.steps:
                there = "|".join(sorted({*map(str, chosen), str(step)}))
                found.add(here, step, edge=Edge(there, 1.0))
                held[there] = frozenset({*map(str, chosen), str(step)})
    return found, held


def value(held: frozenset[str], level: int) -> float:
    """Best: everything but FoldConstant, built at level 0."""
    good = sum(step != str(KEYED.steps[2]) for step in held) - 2 * (str(KEYED.steps[2]) in held)
    return good - level


def states_space() -> tuple[GraphSpace, dict[str, frozenset[str]]]:
    found, held = graph()

    def reach(pipeline: Pipeline) -> str | Failure:
        return "|".join(sorted(set(map(str, pipeline.passes))))

    def op_counts(state: str) -> Mapping[str, int]:
        return dict.fromkeys(held[state], 1)

    return GraphSpace(found, reach, op_counts=op_counts), held


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_proposes_candidates_of_its_space(name: str) -> None:
    states, _ = states_space()
    chosen = make_strategy(name, KEYED, graph=states, seed=1)
    study = optuna.create_study(direction="maximize", sampler=chosen.sampler)
    for _ in range(25):
        trial = study.ask(chosen.space.distributions())
        candidate = chosen.space.decode(trial.params)
        assert {step.name for step in candidate.pipeline.passes} <= set(NAMES)
        state = frozenset(map(str, candidate.pipeline.passes))
        study.tell(trial, value(state, candidate.build.opt_level))
    assert len({str(trial.params) for trial in study.trials}) > 5


def test_nsga2_breeds_from_candidates_that_it_did_not_propose() -> None:
    states, _ = states_space()
    chosen = make_strategy("nsga2", KEYED, graph=states, seed=1, objectives=2)
    study = optuna.create_study(directions=["maximize", "maximize"], sampler=chosen.sampler)
    space = chosen.space.distributions()
    drawn = optuna.create_study()
    for _ in range(16):
        keys = drawn.ask(space).params
        trial = optuna.trial.create_trial(
            params=keys, distributions=space, values=[1.0, 1.0], system_attrs=dict(chosen.attributes)
        )
        study.add_trial(trial)
    proposed = study.ask(space)
    assert chosen.sampler.get_trial_generation(study, study.trials[proposed.number]) == 1


@pytest.mark.parametrize("most", [graph_sampler.MOST_LEARNT_FROM, 8], ids=["all", "few"])
def test_the_graph_strategy_asks_for_everything_once_and_for_the_best_soon(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_sampler, "MOST_LEARNT_FROM", most)
    places = []
    for seed in range(10):
        states, held = states_space()
        chosen = make_strategy("graph", KEYED, graph=states, seed=seed)
        study = optuna.create_study(direction="maximize", sampler=chosen.sampler)
        asked = []
        for _ in range(2 * len(held)):
            trial = study.ask(chosen.space.distributions())
            candidate = chosen.space.decode(trial.params)
            asked.append((frozenset(map(str, candidate.pipeline.passes)), candidate.build.opt_level))
            study.tell(trial, value(*asked[-1]))
        assert len(set(asked)) == len(asked) == 32
        values = [value(*each) for each in asked]
        places.append(values.index(max(values)))
    assert np.median(places) <= 10  # at random 15.5


@pytest.mark.parametrize("seed", range(3))
def test_the_graph_strategy_knows_what_is_good_from_what_loses_throughput(seed: int) -> None:
    """Of two operators one makes it quick, the other loses throughput: what has the first alone is asked for."""
    outcomes = {"neither": (0.0, 1.0), "both": (0.7, 0.5), "second": (0.0, 0.5)}
    counts = {"neither": {"other": 9}, "both": {"other": 9, "quick": 9, "loses": 9}, "second": {"other": 9, "loses": 9}}
    counts |= {
        "first": {"other": 9, "quick": 9},
        **{f"loses{number}": {"other": 9, "loses": 9, f"{number}": 9} for number in range(4)},
    }
    found = StateGraph("neither")
    steps = [PassSpec.of(name) for name in list(counts)[1:]]
    for step in steps:
        found.add("neither", step, edge=Edge(step.name, 1.0))
    space = GraphSpace(found, lambda _: "neither", op_counts=counts.__getitem__, steps=steps)
    chosen = make_strategy("graph", KEYED, graph=space, seed=seed)
    study = optuna.create_study(direction="maximize", sampler=chosen.sampler)
    for number, state in enumerate(found):
        for level in (each.opt_level for each in BUILDS if state in outcomes):
            gain, ratio = outcomes[state]
            value, attributes = values_under_constraint(gain, ratio=ratio, least=0.98)
            keys, kinds = {"state": number, "build:opt_level": level}, space.distributions()
            told = optuna.trial.create_trial(params=keys, distributions=kinds, value=value, user_attrs=dict(attributes))
            study.add_trial(told)
    assert str(space.decode(study.ask(space.distributions()).params).pipeline) == "first"


def test_states_that_are_found_later_are_asked_for_too() -> None:
    found = StateGraph("root")
    space = GraphSpace(found, lambda _: "root", op_counts=lambda _: {})
    assert space.distributions()["state"].high == 0  # type: ignore[attr-defined]
    found.add("root", PassSpec.of("A"), edge=Edge("next", 1.0))
    assert space.distributions()["state"].high == 1  # type: ignore[attr-defined]
    assert str(space.decode({"state": 1, "build:opt_level": 3})) == "A | opt_level=3"


def test_a_sampler_that_does_not_exist_or_knows_one_objective_is_refused() -> None:
    states, _ = states_space()
    with pytest.raises(UserError, match="Unknown sampler `annealing`; choose from: auto, "):
        make_strategy("annealing", KEYED, graph=states, seed=0)
    with pytest.raises(UserError, match="takes one objective"):
        make_strategy("graph", KEYED, graph=states, seed=0, objectives=2)
    assert make_strategy("auto", KEYED, graph=states, seed=0, objectives=2).name == "nsga2"
