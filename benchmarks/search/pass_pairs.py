"""Relations between passes: every ordered pair of Relax's, from many states of small networks.

``python -m benchmarks.search.pass_pairs`` measures the networks that its result lacks, and writes the catalog's
``pairs.json``; ``--declared`` compares `needs` and `conflicts` with the result. Two to ten minutes a network. With
``--relay`` the pairs are those of the ten passes in the recorded spaces of Relay.
"""

import gzip
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import RESULTS, ROOT, markdown, note, options, read, today
from benchmarks.faults.tiny_networks import FEATURES, NETWORKS, write_network
from passsearch.api.common import network_session, open_evaluator
from passsearch.catalog import Catalog, CatalogEntry, load
from passsearch.core import NetworkOptions, PassSpec, Pipeline
from passsearch.evaluate import Closure, Session, StateGraph, WorkerEvaluator
from passsearch.search import analyze_network, first_trials

CATALOGS, SPACES = ROOT / "pass_catalog", ROOT / "benchmarks" / "search" / "spaces"
GPU, GPU_TARGET = "@gpu", "cuda -arch=sm_80"
BUILT_IN = tuple(f"{name}_tiny" for name in ("resnet", "bert", "unet", "gpt2", "llama", "vit", "vgg"))
ON_GPU = tuple(f"{name}{GPU}" for name in ("chain", "norm", "residual", "attention"))
UNKNOWN, FAILED, NO_PASS = "", "failed", Pipeline(())
WITHOUT = "not needed by"
"""The second pass acts before the first one has been there. It is no relation of the catalog: see ``declared``."""


class Seen(NamedTuple):
    """A relation of two passes in one state, which shows or contradicts it."""

    relation: str
    first: str
    second: str
    holds: bool


def pairs_in(
    graph: StateGraph, start: str, steps: Sequence[PassSpec], *, earlier: Pipeline = NO_PASS
) -> Iterator[Seen]:
    """Yield what a state shows of every ordered pair of passes; pairs of which it says nothing are left out.

    Args:
        graph: The states that two passes reach from this one.
        start: The state.
        steps: The passes.
        earlier: The passes that led to the state.
    """
    had = {step.name for step in earlier.passes}
    alone = {step: _after(graph, start, step) for step in steps}
    acts = {step: alone[step] not in (UNKNOWN, FAILED, start) for step in steps}
    for first, second in product((step for step in steps if acts[step]), steps):
        names, both = (first.name, second.name), _after(graph, alone[first], second)
        if first == second and both != UNKNOWN:
            yield Seen("idempotent", *names, both == alone[first])
        other = _after(graph, alone[second], first)
        # A pair of which both orders fail says nothing, and a fault of the machine is no property of a pass.
        if first == second or both == FAILED or UNKNOWN in (both, other):
            continue
        if alone[second] != FAILED:
            yield Seen("disables" if acts[second] else "enables", *names, (both != alone[first]) != acts[second])
        if acts[second] and first.name < second.name and other != FAILED:
            yield Seen("commutes", *names, both == other)
        if acts[second] and first.name not in had:
            yield Seen(WITHOUT, *names, True)
        if acts[second] or both != alone[first]:
            yield Seen("precedes", *names, other == FAILED)


def _after(graph: StateGraph, state: str, step: PassSpec) -> str:
    edge = None if state in (UNKNOWN, FAILED) else graph.edge(state, step)
    if edge is None or not edge.settled:
        return FAILED if state == FAILED else UNKNOWN
    return edge.target if isinstance(edge.target, str) else FAILED


def add_network(document: dict[str, Any], name: str, *, operators: int, starts: Mapping[str, Iterable[Seen]]) -> None:
    """Add what the states of one network show, by the passes that lead to each state.

    Args:
        document: The result.
        name: Name of the network.
        operators: Number of its operators: the smallest network is the witness.
        starts: What each state shows, the state with the fewest passes first.
    """
    counts: dict[tuple[str, str, str], Counter[bool]] = defaultdict(Counter)
    shown: dict[tuple[str, str, str], list[str]] = {}
    for passes, pairs in starts.items():
        for relation, first, second, holds in pairs:
            counts[relation, first, second][holds] += 1
            if holds:
                shown.setdefault((relation, first, second), [name, passes])
    networks, witnesses = document["networks"], document["witnesses"]
    networks[name] = {"operators": operators, "states": len(starts)}
    for (relation, first, second), count in counts.items():
        row = document["relations"].setdefault(relation, {}).setdefault(first, {})
        seen, contradicted, place = row.get(second, (0, 0, -1))
        if count[True] and (place < 0 or operators < networks[witnesses[place][0]]["operators"]):
            witness = shown[relation, first, second]
            witnesses += [witness] if witness not in witnesses else []
            place = witnesses.index(witness)
        row[second] = [seen + count[True], contradicted + count[False], place]
    named = [{*firsts, *(name for row in firsts.values() for name in row)} for firsts in document["relations"].values()]
    document["passes"] = len(set().union(*named))


def measured_passes(session: Session, names: Iterable[str]) -> list[PassSpec]:
    """Return the passes of these names, those on request, and those that `needs` and `conflicts` name."""

    def runs(entry: CatalogEntry) -> bool:
        has_values = all(each.alternatives for each in entry.parameters if each.required)
        is_here = not entry.devices or session.device_kind in entry.devices
        return has_values and is_here and entry.supports(session.toolchain.tvm_version)

    wanted = set(names)
    for entry in session.catalog.entries.values():
        related = {*entry.conflicts, *(need.name for need in entry.needs)}
        wanted |= {entry.name, *related} if related or entry.role == "additional" else set()
    return [each.variants()[0] for each in session.catalog.entries.values() if each.name in wanted and runs(each)]


def prefixes(evaluator: WorkerEvaluator, sequences: Iterable[Pipeline], most: int) -> dict[str, Pipeline]:
    """Return states on the way of sequences, with the fewest passes to each, evenly from the whole way."""
    found: dict[str, Pipeline] = {}
    for sequence in sequences:
        for length in range(len(sequence) + 1):
            prefix = Pipeline(sequence.passes[:length])
            state = evaluator.reach(prefix)
            if isinstance(state, str) and (state not in found or length < len(found[state])):
                found[state] = prefix
    ordered = sorted(found.items(), key=lambda row: len(row[1]))
    return dict(ordered[:: -(-len(ordered) // most)])


def measure(name: str, model: str, *, target: str | None, most: int, document: dict[str, Any]) -> None:
    """Measure one network, from this many states at most, and add it to the result."""
    session = network_session(model, None, NetworkOptions(toolchain="relax", target=target))
    with open_evaluator(session, remember=True) as evaluator:
        analysis = analyze_network(session, evaluator.network.summary)
        steps, graph = measured_passes(session, analysis.selection.names()), evaluator.graph
        trials = first_trials(session, analysis)
        starts = prefixes(evaluator, [trial.pipeline for trial in trials], most)
        for number, state in enumerate(starts):
            note(f"{name}, {len(steps)} passes, {graph.states} states", number, len(starts))
            evaluator.applier.expand(state, steps)
            for reached in {_after(graph, state, step) for step in steps} - {UNKNOWN, FAILED, state}:
                evaluator.applier.expand(reached, steps)
        seen = {
            ",".join(map(str, pipeline.passes)): list(pairs_in(graph, state, steps, earlier=pipeline))
            for state, pipeline in starts.items()
        }
        add_network(document, name, operators=len(evaluator.network.summary.operators), starts=seen)
    document |= {"tvm": session.toolchain.tvm_version, "date": today()}


def recorded_pairs(document: dict[str, Any]) -> None:
    """Add every state of the recorded spaces of Relay to a result."""
    for file in sorted(SPACES.glob("*.json.gz")):
        space = json.loads(gzip.decompress(file.read_bytes()))
        closure = Closure.from_json(space["graph"])
        ways = {state: closure.graph.cheapest(state)[0] for state in closure.states}
        seen = {
            ",".join(map(str, ways[state].passes)): list(
                pairs_in(closure.graph, state, closure.passes, earlier=ways[state])
            )
            for state in sorted(ways, key=lambda state: len(ways[state]))
        }
        operators = sum(space["census"][0].values())
        add_network(document, file.name.partition(".")[0], operators=operators, starts=seen)
        document |= {"tvm": space["toolchain"]["tvm_version"], "date": max(space["date"], document.get("date", ""))}


def write_pairs(file: Path, document: Mapping[str, Any], *, least: int = 0, without: str = "") -> None:
    """Write relations that so many states show, with a line for each pass: small, and changes can be read."""
    relations = {relation: firsts for relation, firsts in document["relations"].items() if relation != without}
    text = json.dumps({**document, "relations": {relation: relation for relation in relations}}, indent=1)
    for relation, firsts in relations.items():
        rows = {first: {name: row for name, row in rows.items() if row[0] >= least} for first, rows in firsts.items()}
        lines = [f'"{first}": {json.dumps(row, separators=(",", ":"))}' for first, row in rows.items() if row]
        text = text.replace(f': "{relation}"', ": {\n   " + ",\n   ".join(lines) + "\n  }")
    file.write_text(text + "\n")


def declared(document: Mapping[str, Any], catalog: Catalog) -> Iterator[tuple[str, ...]]:
    """Yield each `need` and each `conflict` of the catalog, a verdict, and the numbers of states for and against it.

    A pass that needs another one acts only after it, or fails before it. A pass that conflicts with another one does
    not act after it, or fails after it.
    """

    def counts(relation: str, first: str, second: str) -> tuple[int, int]:
        seen, contradicted, _ = document["relations"].get(relation, {}).get(first, {}).get(second, (0, 0, 0))
        return seen, contradicted

    def verdict(shown: int, against: int) -> tuple[str, str, str]:
        word = "confirmed" if not against else "in part" if shown else "contradicted"
        return word if shown + against else "no witness", str(shown), str(against)

    for entry in catalog.entries.values():
        for other in (need.name for need in entry.needs):
            shown = counts("enables", other, entry.name)[0] + counts("precedes", other, entry.name)[0]
            yield entry.name, "needs", other, *verdict(shown, counts(WITHOUT, other, entry.name)[0])
        for other in entry.conflicts:
            disabled, acts = counts("disables", other, entry.name)
            shown = disabled + counts("precedes", entry.name, other)[0]
            yield entry.name, "conflicts", other, *verdict(shown, acts + counts("enables", other, entry.name)[0])


def main() -> None:
    arguments = options(
        __doc__,
        ("networks", (*FEATURES, *NETWORKS, *ON_GPU, *BUILT_IN)),
        out=RESULTS / "pass_pairs.json",
        states=(16, "most states of a network; a third for one that is built in, or lowered for a GPU"),
        declared=False,
        relay=False,
    )
    empty: dict[str, Any] = {"schema": "passsearch-pairs/1", "networks": {}, "witnesses": [], "relations": {}}
    document, dialect = (empty, "relay") if arguments.relay else (read(arguments.out) or empty, "relax")
    if arguments.relay:
        recorded_pairs(document)
        write_pairs(CATALOGS / dialect / "pairs.json", document, least=1, without=WITHOUT)
    if arguments.declared:
        rows = list(declared(document, load(dialect)))
        print(markdown(("pass", "says", "of", "verdict", "states for it", "states against it"), rows))
        print(*sorted(Counter(row[1:4:2] for row in rows).items()), sep="\n")
    if arguments.declared or arguments.relay:
        return
    with tempfile.TemporaryDirectory() as folder:
        for network in [name for name in arguments.networks if name not in document["networks"]]:
            name, target = network.removesuffix(GPU), GPU_TARGET if network.endswith(GPU) else None
            own = name in {**FEATURES, **NETWORKS}
            model = str(write_network(name, Path(folder))) if own else f"zoo:{name}"
            most = arguments.states if own and not target else arguments.states // 3
            measure(network, model, target=target, most=most, document=document)
            write_pairs(arguments.out, document)
            write_pairs(CATALOGS / dialect / "pairs.json", document, least=1, without=WITHOUT)
            print(network, document["networks"][network], flush=True)


if __name__ == "__main__":
    main()
