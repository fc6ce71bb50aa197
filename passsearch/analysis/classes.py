"""Architecture classes: rules over features, parsed from data, with the evidence for or against every class."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from passsearch.core import UNKNOWN_CLASS, ArchitectureClass, Feature, Fingerprint, Json
from passsearch.errors import UserError

# Placeholders that the evidence text of a rule may contain.
_COUNT_FIELDS = ("count", "first", "detail", "feature")
_RATIO_FIELDS = ("part", "whole", "percent")
_PLURAL = re.compile(r"^(1 (?:[\w-]+ )?[\w-]*[^\Ws])s\b")  # "1 residual adds"


@dataclass(frozen=True)
class Count:
    """The condition that a feature occurs often enough and not too often.

    Attributes:
        feature: Name of the feature.
        minimum: Smallest number of occurrences.
        maximum: Largest number of occurrences.
        evidence: Text for people; ``{count}``, ``{first}`` and ``{detail}`` are filled in.
    """

    feature: str
    minimum: int = 1
    maximum: float = math.inf
    evidence: str = "{count} {feature}, first at %{first}"


@dataclass(frozen=True)
class Ratio:
    """The condition that one feature occurs often enough in proportion to another.

    Attributes:
        part: Name of the feature in the numerator.
        whole: Name of the feature in the denominator.
        minimum: Smallest quotient of the two counts; the condition fails if the denominator is 0.
        evidence: Text for people; ``{part}``, ``{whole}`` and ``{percent}`` are filled in.
    """

    part: str
    whole: str
    minimum: float
    evidence: str = "{part} of {whole} ({percent} %)"


@dataclass(frozen=True)
class AllOf:
    """The condition that every inner condition holds."""

    conditions: tuple["Condition", ...]


@dataclass(frozen=True)
class AnyOf:
    """The condition that at least one inner condition holds; the first that holds gives the evidence."""

    conditions: tuple["Condition", ...]


@dataclass(frozen=True)
class Not:
    """The condition that the inner condition does not hold."""

    condition: "Condition"


Condition: TypeAlias = Count | Ratio | AllOf | AnyOf | Not


@dataclass(frozen=True)
class ClassRule:
    """The rule that decides whether a network belongs to a class.

    Attributes:
        name: Name of the class.
        title: Description of the class for people.
        when: The condition for membership.
    """

    name: str
    title: str
    when: Condition

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> "ClassRule":
        """Read a rule with the fields ``name``, ``title`` and ``when``. The condition ``when`` has one of these forms.

        ``{feature: NAME, min: N, max: N, evidence: TEXT}``,
        ``{ratio: [PART, WHOLE], min: X, evidence: TEXT}``,
        ``{all: [...]}``, ``{any: [...]}``, ``{not: {...}}``.

        Raises:
            UserError: The rule is not of this form.
        """
        name, when = data.get("name"), data.get("when")
        if not isinstance(name, str) or not isinstance(when, dict):
            raise UserError(
                f"Class rule `{name}`: got {sorted(data)}; needed are `name` (text) and `when` (a condition)."
            )
        return cls(name, str(data.get("title") or name), _condition(when, rule=name))

    def features(self) -> frozenset[str]:
        """Return the names of the features that the rule refers to."""
        return frozenset(_features(self.when))


@dataclass(frozen=True)
class _Verdict:
    """The result of one condition, and the lines that say why it holds or fails."""

    holds: bool
    lines: tuple[str, ...]


def classify(fingerprint: Fingerprint, rules: Iterable[ClassRule]) -> tuple[ArchitectureClass, ...]:
    """Return every class whose rule holds, or the class `unknown` if no rule holds.

    The evidence of `unknown` lists for every class the features that the network lacks.
    """
    verdicts = [(rule, _judge(rule.when, fingerprint)) for rule in rules]
    classes = tuple(ArchitectureClass(rule.name, verdict.lines) for rule, verdict in verdicts if verdict.holds)
    if classes:
        return classes
    missing = tuple(f"not {rule.name} ({rule.title}): " + "; ".join(verdict.lines) for rule, verdict in verdicts)
    return (ArchitectureClass(UNKNOWN_CLASS, missing or ("the catalog has no class rules",)),)


def _judge(condition: Condition, fingerprint: Fingerprint) -> _Verdict:
    if isinstance(condition, Count):
        return _judge_count(condition, fingerprint)
    if isinstance(condition, Ratio):
        return _judge_ratio(condition, fingerprint)
    if isinstance(condition, Not):
        inner = _judge(condition.condition, fingerprint)
        return _Verdict(not inner.holds, tuple(f"it has {line}" for line in inner.lines) if inner.holds else ())
    verdicts = [_judge(inner, fingerprint) for inner in condition.conditions]
    if isinstance(condition, AnyOf):
        return next((verdict for verdict in verdicts if verdict.holds), _Verdict(False, _lines(verdicts)))
    failures = [verdict for verdict in verdicts if not verdict.holds]
    # Only failures explain a failure: evidence for the other conditions would hide the missing feature.
    return _Verdict(not failures, _lines(failures or verdicts))


def _lines(verdicts: Iterable[_Verdict]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line for verdict in verdicts for line in verdict.lines))


def _judge_count(condition: Count, fingerprint: Fingerprint) -> _Verdict:
    feature = fingerprint.features.get(condition.feature, Feature(0))
    got = f"{feature.count} `{condition.feature}`"
    if feature.count < condition.minimum:
        return _Verdict(False, (f"{got}, at least {condition.minimum} needed",))
    if feature.count > condition.maximum:
        return _Verdict(False, (f"{got}, at most {condition.maximum} allowed",))
    values = {"count": feature.count, "first": feature.first, "detail": feature.detail}
    text = condition.evidence.format(feature=condition.feature, **values)
    if feature.count == 1:
        text = _PLURAL.sub(r"\1", text)
    # A condition with minimum 0 holds for an absent feature, which has no first operator to name.
    return _Verdict(True, (text,) if feature.count else ())


def _judge_ratio(condition: Ratio, fingerprint: Fingerprint) -> _Verdict:
    part, whole = fingerprint.count(condition.part), fingerprint.count(condition.whole)
    if not whole or part / whole < condition.minimum:
        got = f"{part} `{condition.part}` for {whole} `{condition.whole}`"
        return _Verdict(False, (f"{got}, a ratio of at least {condition.minimum:g} needed",))
    percent = round(100 * part / whole)
    return _Verdict(True, (condition.evidence.format(part=part, whole=whole, percent=percent),))


def _condition(data: Json, *, rule: str) -> Condition:
    if not isinstance(data, dict):
        raise UserError(f"Class rule `{rule}`: got `{data}`; a condition is a mapping.")
    # A field that the form does not have is refused: a mistyped `min` must not become the default.
    form = next((form for form in _FORMS if form in data), None)
    if form is None or (unknown := sorted(set(data) - _FORMS[form])):
        got = sorted(data) if form is None else unknown
        raise UserError(f"Class rule `{rule}`: got {got} in a condition; allowed are {_allowed(form)}.")
    try:
        return _parse(form, data, rule=rule)
    except (TypeError, ValueError) as error:
        raise UserError(f"Class rule `{rule}`: `{form}: {data[form]}` cannot be read: {error}.") from None


_FORMS: Mapping[str, frozenset[str]] = {
    "feature": frozenset({"feature", "min", "max", "evidence"}),
    "ratio": frozenset({"ratio", "min", "evidence"}),
    "all": frozenset({"all"}),
    "any": frozenset({"any"}),
    "not": frozenset({"not"}),
}


def _allowed(form: str | None) -> str:
    return ", ".join(sorted(_FORMS if form is None else _FORMS[form]))


def _parse(form: str, data: Mapping[str, Json], *, rule: str) -> Condition:
    if form == "feature":
        return _parse_count(data)
    if form == "ratio":
        return _parse_ratio(data)
    if form == "not":
        return Not(_condition(data["not"], rule=rule))
    conditions = tuple(_condition(inner, rule=rule) for inner in _items(data[form]))
    return AllOf(conditions) if form == "all" else AnyOf(conditions)


def _parse_count(data: Mapping[str, Json]) -> Count:
    maximum = data.get("max")
    return Count(
        feature=_text(data["feature"]),
        minimum=_whole_number(data.get("min", 1)),
        maximum=math.inf if maximum is None else _whole_number(maximum),
        evidence=_template(data.get("evidence", Count.evidence), _COUNT_FIELDS),
    )


def _parse_ratio(data: Mapping[str, Json]) -> Ratio:
    part, whole = _items(data["ratio"])
    return Ratio(
        part=_text(part),
        whole=_text(whole),
        minimum=_number(data.get("min")),
        evidence=_template(data.get("evidence", Ratio.evidence), _RATIO_FIELDS),
    )


def _template(value: Json, names: Iterable[str]) -> str:
    text = _text(value)
    # Fill the text in once now, so that a wrong placeholder is an error of the file and not of a later analysis.
    try:
        text.format(**{name: "" if name == "detail" else 0 for name in names})
    except (KeyError, IndexError, AttributeError, ValueError) as error:
        raise ValueError(f"got {error} in `evidence`, allowed are {', '.join(names)}") from None
    return text


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise ValueError(f"got `{value}`, text is needed")
    return value


def _number(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"got `{value}`, a number is needed")
    return value


def _whole_number(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"got `{value}`, a whole number is needed")
    return value


def _items(value: Json) -> Sequence[Json]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"got `{value}`, a list is needed")
    return value


def _features(condition: Condition) -> Iterable[str]:
    if isinstance(condition, Count):
        return (condition.feature,)
    if isinstance(condition, Ratio):
        return (condition.part, condition.whole)
    if isinstance(condition, Not):
        return _features(condition.condition)
    return (name for inner in condition.conditions for name in _features(inner))
