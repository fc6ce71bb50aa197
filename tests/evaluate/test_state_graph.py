"""The state graph, without a compiler."""

from passsearch.core import Failure, PassSpec
from passsearch.evaluate.state_graph import Edge, StateGraph


def test_a_pass_is_idle_if_it_was_applied_and_changed_no_state_whatever_its_arguments() -> None:
    graph = StateGraph("root")
    effects = {
        ("root", PassSpec.of("Acts", level=1)): "root",
        ("root", PassSpec.of("Acts", level=2)): "other",
        ("root", PassSpec.of("Idle", level=1)): "root",
        ("other", PassSpec.of("Idle", level=2)): "other",
    }
    for (state, step), target in effects.items():
        graph.add(state, step, edge=Edge(target, 0.1))
    graph.add("root", PassSpec.of("Fails"), edge=Edge(Failure("crash", "apply", "Fails", "killed"), 0.1))

    assert graph.idle_passes() == ("Idle",)
    assert graph.tried_passes() == {"Acts", "Idle", "Fails"}
