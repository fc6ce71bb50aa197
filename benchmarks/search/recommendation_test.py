"""Tests what the corpus recommends: ``python -m benchmarks.search.recommendation_test``.

Each architecture family is left out in turn, and a rule chooses for its networks by the others of the same kind of
processor. ``--page`` writes the table into ``docs/evidence/search.md``.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import median, quantiles
from typing import Any, TypeAlias

from benchmarks.common import RESULTS, markdown, options, write, write_part
from passsearch.catalog import read_corpus
from passsearch.results import CorpusNetwork
from passsearch.search.corpus_recommendation import (
    DEFAULT,
    LEAST_SEARCHED,
    ONNXRUNTIME,
    alike_networks,
    evidence,
    expected_gain,
    order_by_nearest,
    search_bound,
    search_gains,
)

Networks: TypeAlias = Mapping[str, CorpusNetwork]
Rule: TypeAlias = Callable[[Networks, CorpusNetwork], str]
LEAST_LEAF = 3
SHIPPED = "3 nearest networks"
TINY = ("_tiny", "_tiny_decode")
"""Ends of the names of networks that passsearch has for tests."""


def by_catalog(_: Networks, row: CorpusNetwork) -> str:
    """Return the first sequence of the catalog's order."""
    return row.order[0]


def one_for_all(networks: Networks, row: CorpusNetwork) -> str:
    """Return the sequence that reaches most on all networks, of those that nearly all of them take."""
    return _most(networks.values(), row, share=0.9)


def most_frequent(networks: Networks, row: CorpusNetwork) -> str:
    """Return the sequence that is the fastest most often in the class."""
    alike = alike_networks(networks, row.classes)
    wins = Counter(best for each in alike.values() if (best := each.best()) in row.order)
    return wins.most_common(1)[0][0] if wins else one_for_all(networks, row)


def by_class(networks: Networks, row: CorpusNetwork) -> str:
    """Return the sequence that reaches most on networks of the class; the first of the catalog's order without any."""
    return _most(alike_networks(networks, row.classes).values(), row, share=0.5)


def nearest(networks: Networks, row: CorpusNetwork) -> str:
    """Return the sequence that reaches most on the networks with the most similar counts of features."""
    return order_by_nearest(networks, row.classes, row.features, row.order)[0]


def by_tree(networks: Networks, row: CorpusNetwork) -> str:
    """Return the sequence that reaches most in the leaf of a tree with two questions on features."""
    rows = [*networks.values()]
    for _ in range(2):
        features = sorted({name for each in rows for name in each.features})
        splits = [_split(rows, name) for name in features]
        useful = [pair for pair in splits if all(len(part) >= LEAST_LEAF for part in pair)]
        if not useful:
            break
        present, absent = max(useful, key=lambda pair: sum(map(_potential, pair)))
        question = next(name for name, pair in zip(features, splits, strict=True) if pair == (present, absent))
        rows = present if question in row.features else absent
    return _most(rows, row, share=0.5)


def _split(rows: Sequence[CorpusNetwork], name: str) -> tuple[list[CorpusNetwork], list[CorpusNetwork]]:
    return [each for each in rows if name in each.features], [each for each in rows if name not in each.features]


def _potential(rows: Sequence[CorpusNetwork]) -> float:
    """Return the sum of the logarithms of what the best single sequence reaches."""
    names = {name for each in rows for name in each.order}
    return max(math.fsum(_log_reach(each, name) for each in rows) for name in names)


def _log_reach(row: CorpusNetwork, name: str) -> float:
    # A network that does not take a sequence takes the first of the catalog's order instead.
    return math.log(row.reach(name) or row.reach(row.order[0]) or 1.0)


def _most(rows: Any, row: CorpusNetwork, *, share: float) -> str:
    """Return the suited sequence with the largest mean reach among those that this share of the rows takes."""
    rows = list(rows)
    reached = {name: [value for each in rows if (value := each.reach(name))] for name in row.order}
    known = {name: values for name, values in reached.items() if values and len(values) >= share * len(rows)}
    if not known:
        return row.order[0]
    return max(known, key=lambda name: math.fsum(map(math.log, known[name])) / len(known[name]))


RULES: Mapping[str, Rule] = {
    "one sequence for all": one_for_all,
    "the class' most frequent": most_frequent,
    "the catalog's order": by_catalog,
    "most reached in the class": by_class,
    "3 nearest networks": nearest,
    "tree of 2 questions": by_tree,
}


def judge_rule(networks: Networks, rule: Rule, *, judged: Sequence[str] | None = None) -> dict[str, Any]:
    """Return how much of the best known throughput a rule reaches where it does not know the family.

    Args:
        networks: The corpus on one kind of processor.
        rule: The rule.
        judged: Names of the networks that count; all by default.
    """
    reach: dict[str, float] = {}
    losses: dict[str, list[str]] = {DEFAULT: [], ONNXRUNTIME: []}
    compared: Counter[str] = Counter()
    chosen: dict[str, str] = {}
    for name in networks if judged is None else judged:
        row = networks[name]
        others = {key: each for key, each in networks.items() if each.family != row.family}
        chosen[name] = rule(others, row)
        reach[name] = row.reach(chosen[name]) or math.nan
        for rival in losses:
            speed = row.speed(chosen[name], over=rival)
            compared[rival] += speed is not None
            losses[rival] += [name] if speed is not None and speed < 1 else []
    values = sorted(reach.values())
    return {
        "networks": len(values),
        "median": median(values),
        "worst_decile": quantiles(values, n=10, method="inclusive")[0] if len(values) > 1 else values[0],
        "worst": values[0],
        "compared": dict(compared),
        "slower_than": losses,
        "chosen": chosen,
        "reach": reach,
    }


def judge_expectations(networks: Networks) -> dict[str, Any]:
    """Return how often the expected gain over the default holds, and how often the corpus abstains."""
    held, abstained = [], []
    for name, row in networks.items():
        others = {key: each for key, each in networks.items() if each.family != row.family}
        chosen = nearest(others, row)
        found = evidence(others, row.classes, chosen)
        gain = found and expected_gain(found.alike.values(), chosen, over=DEFAULT)
        speed = row.speed(chosen, over=DEFAULT)
        if not gain or not gain.interval or speed is None:
            abstained.append(name)
        else:
            low, high = gain.interval
            held.append((low or 0.0) <= speed <= (high or math.inf))
    return {"predicted": len(held), "held": sum(held), "abstained": abstained}


def judge_bound(corpus: Mapping[str, Networks]) -> dict[str, Any]:
    """Return how often the bound on a search holds where it does not know the family."""
    gains = {(kind, name): gain for kind, rows in corpus.items() for name, gain in search_gains(rows).items()}
    rows = []
    for (kind, name), gain in gains.items():
        family = corpus[kind][name].family
        others = [each for (where, other), each in gains.items() if corpus[where][other].family != family]
        bound = search_bound(others, of="")
        if bound is not None:
            rows.append({"network": name, "processor": kind, "gain": gain - 1, "bound": bound.most})
    return {
        "searched": len(gains),
        "needed": LEAST_SEARCHED,
        "held": sum(r["gain"] <= r["bound"] for r in rows),
        "rows": rows,
    }


def page(document: Mapping[str, Any]) -> str:
    """Return the Markdown of the page: for each kind of processor the median, the worst decile and the worst."""
    kinds: Mapping[str, Any] = document["processors"]
    rows = [[name, *(_cells(tested["rules"][name]) for tested in kinds.values())] for name in RULES]
    parts = [markdown(["rule", *(_head(kind, tested) for kind, tested in kinds.items())], rows)]
    for kind, tested in kinds.items():
        row, expected = tested["rules"][SHIPPED], tested["expectations"]
        slower = ", ".join(
            f"than {title} on {len(row['slower_than'][rival])} of {row['compared'][rival]}"
            for rival, title in ((DEFAULT, "TVM's default"), (ONNXRUNTIME, "ONNX Runtime"))
            if row["compared"].get(rival)
        )
        held = f"; the interval of its gain over the default held {expected['held']} of {expected['predicted']} times"
        parts.append(
            f"On `{kind}` the rule of the {SHIPPED} is slower {slower}{held if expected['predicted'] else ''}."
        )
        if (usual := tested["usual"])["networks"] < tested["networks"]:
            parts[-1] += f" On the {usual['networks']} networks that are not for tests it reaches {_cells(usual)}."
    bound = document["bound"]
    parts.append(f"The bound on a search held for {bound['held']} of {len(bound['rows'])} searched networks.")
    return "\n\n".join(parts)


def _head(kind: str, tested: Mapping[str, Any]) -> str:
    return f"`{kind}`: {tested['networks']} networks, {tested['families']} families"


def _cells(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{row[key]:.3f}" for key in ("median", "worst_decile", "worst"))


def main() -> None:
    arguments = options(__doc__, page=(False, "write the table into the page"))
    corpus = {
        kind: {name: row for name, row in each.networks.items() if row.best() is not None}
        for kind, each in read_corpus("relax").processors.items()
    }
    document = {
        "processors": {
            kind: {
                "networks": len(rows),
                "families": len({row.family for row in rows.values()}),
                "rules": {name: judge_rule(rows, rule) for name, rule in RULES.items()},
                "usual": judge_rule(rows, RULES[SHIPPED], judged=[name for name in rows if not name.endswith(TINY)]),
                "expectations": judge_expectations(rows),
            }
            for kind, rows in corpus.items()
        },
        "bound": judge_bound(corpus),
    }
    write(RESULTS / "recommendation.json", document)
    text = page(document)
    print(text)
    if arguments.page:
        write_part("search.md", "search/recommendation_test.py", text)


if __name__ == "__main__":
    main()
