"""Exchanges of one pass, one argument of a pass, or one setting between two candidates."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from difflib import SequenceMatcher
from typing import Any, Literal

from passsearch.core import BuildOptions, Candidate, PassSpec, Pipeline


@dataclass(frozen=True)
class CandidateExchange:
    """A candidate with one thing of another.

    Attributes:
        text: The exchange in words.
        kind: What is exchanged.
        candidate: The candidate after it.
        size: Number of passes that are added and left out together; 1 where one replaces one.
    """

    text: str
    kind: Literal["pass", "setting"]
    candidate: Candidate
    size: int = 1


def candidate_exchanges(before: Candidate, after: Candidate) -> tuple[CandidateExchange, ...]:
    """Return the second candidate with each single pass, argument or option of the build of the first.

    Passes that the first has beside others in the same place come together too, since one may need the other.
    """
    found: dict[tuple[Pipeline, BuildOptions], CandidateExchange] = {}
    for each in (*_of_build(before, after), *_of_passes(before, after)):
        # Two exchanges may lead to one candidate; the first one has the shorter text.
        found.setdefault((each.candidate.pipeline, each.candidate.build), each)
    found.pop((after.pipeline, after.build), None)
    return tuple(found.values())


def setting_exchanges(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield, for every setting that differs, its text and the second settings with the first's value."""
    for name in dict.fromkeys([*before, *after]):
        if name in before and before[name] != after.get(name):
            yield f"{name}={before[name]} in place of {after.get(name, 'the default')}", {**after, name: before[name]}
        elif name not in before:
            rest = {key: value for key, value in after.items() if key != name}
            yield f"{name} as by default in place of {after[name]}", rest


def _of_build(before: Candidate, after: Candidate) -> Iterator[CandidateExchange]:
    for each in fields(BuildOptions):
        own, other = getattr(before.build, each.name), getattr(after.build, each.name)
        if own != other:
            build = replace(after.build, **{each.name: own})
            text = f"{each.name} of the build {_value(own)} in place of {_value(other)}"
            yield CandidateExchange(text, "setting", replace(after, build=build, name=""))


def _value(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


def _of_passes(before: Candidate, after: Candidate) -> Iterator[CandidateExchange]:
    first, second = before.pipeline.passes, after.pipeline.passes

    def exchanged(text: str, start: int, end: int, *new: PassSpec) -> CandidateExchange:
        passes = (*second[:start], *new, *second[end:])
        size = max(len(new), end - start)
        return CandidateExchange(text, "pass", replace(after, pipeline=Pipeline(passes), name=""), size)

    codes = SequenceMatcher(None, [*map(str, first)], [*map(str, second)], autojunk=False).get_opcodes()
    stays = {place for tag, _, _, j1, j2 in codes if tag == "equal" for place in range(j1, j2)}
    for tag, i1, i2, j1, j2 in codes:
        if tag == "equal":
            continue
        own, other = first[i1:i2], second[j1:j2]
        if [each.name for each in own] == [each.name for each in other]:
            for place, (one, two) in enumerate(zip(own, other, strict=True), start=j1):
                yield exchanged(f"{one} in place of {two}", place, place + 1, one)
                yield from _of_arguments(one, two, after, place)
            continue
        for place in range(j1, j2):
            yield exchanged(f"without {second[place]}", place, place + 1)
        for one in own:
            # A pass that stands elsewhere in the second pipeline is moved, not doubled; one that the first has more
            # often is missing.
            moved = [place for place, each in enumerate(second) if each == one and place not in stays]
            if moved and first.count(one) == second.count(one):
                yield _moved(after, moved[0], j1, one)
            else:
                yield exchanged(f"with {one}", j2, j2, one)
        if len(own) + len(other) > 1:
            texts = [", ".join(map(str, part)) or "nothing" for part in (own, other)]
            yield exchanged(f"{texts[0]} in place of {texts[1]}", j1, j2, *own)


def _of_arguments(own: PassSpec, other: PassSpec, after: Candidate, place: int) -> Iterator[CandidateExchange]:
    """Yield the exchange of each argument of a pass that both have, where several differ."""
    values, others = own.argument_values, other.argument_values
    exchanges = [*setting_exchanges(values, others)]
    passes = after.pipeline.passes
    for text, arguments in exchanges if len(exchanges) > 1 else ():
        pipeline = Pipeline((*passes[:place], PassSpec.of(own.name, **arguments), *passes[place + 1 :]))
        yield CandidateExchange(f"{own.name}: {text}", "pass", replace(after, pipeline=pipeline, name=""))


def _moved(after: Candidate, source: int, target: int, step: PassSpec) -> CandidateExchange:
    passes = list(after.pipeline.passes)
    passes.pop(source)
    passes.insert(target - (source < target), step)
    text = f"{step} {'earlier' if target < source else 'later'}"
    return CandidateExchange(text, "pass", replace(after, pipeline=Pipeline(tuple(passes)), name=""))
