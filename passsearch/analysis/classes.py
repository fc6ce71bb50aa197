"""Architecture classes: conditions over features, read from data, with the evidence for or against each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from passsearch.core import ArchitectureClass, Feature, Fingerprint, Json
from passsearch.errors import UserError

UNKNOWN = "unknown"

_COUNT_FIELDS = ("count", "first", "detail", "feature")
_RATIO_FIELDS = ("part", "whole", "percent")


@dataclass(frozen=True)
class Count:
    """A feature occurs often enough.

    Attributes:
        feature: Its name.
        minimum: Least number of occurrences.
        maximum: Greatest number, ``None`` for any.
        evidence: What to tell a person; ``{count}``, ``{first}`` and ``{detail}`` are filled in.
    """

    feature: str
    minimum: int = 1
    maximum: int | None = None
    evidence: str = "{count} {feature}, first at %{first}"


@dataclass(frozen=True)
class Ratio:
    """One feature occurs often enough against another.

    Attributes:
        part: Name of the feature counted.
        whole: Name of the feature it is compared with.
        minimum: Least quotient of the two counts; a whole of 0 never suffices.
        evidence: What to tell a person; ``{part}``, ``{whole}`` and ``{percent}`` are filled in.
    """

    part: str
    whole: str
    minimum: float
    evidence: str = "{part} of {whole} ({percent} %)"


@dataclass(frozen=True)
class All:
    """Every condition holds."""

    conditions: tuple["Condition", ...]


@dataclass(frozen=True)
class Any:
    """At least one condition holds; the evidence is that of the first that does."""

    conditions: tuple["Condition", ...]


@dataclass(frozen=True)
class Not:
    """A condition does not hold."""

    condition: "Condition"


Condition: TypeAlias = Count | Ratio | All | Any | Not


@dataclass(frozen=True)
class ClassRule:
    """When a network belongs to a class.

    Attributes:
        name: The class.
        title: What the class is, in words.
        when: The condition.
    """

    name: str
    title: str
    when: Condition

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> "ClassRule":
        """Reads a rule: ``name``, ``title`` and ``when``, a condition of the forms below.

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
        """Names of the features that the rule looks at."""
        return frozenset(_features(self.when))


@dataclass(frozen=True)
class _Verdict:
    """Whether a condition holds, and the lines that say why or why not."""

    holds: bool
    lines: tuple[str, ...]


def classify(fingerprint: Fingerprint, rules: Iterable[ClassRule]) -> tuple[ArchitectureClass, ...]:
    """Labels a network with every class whose rule holds, or else with `unknown`.

    The evidence of `unknown` says for each class what was looked for and not found.
    """
    verdicts = [(rule, _judge(rule.when, fingerprint)) for rule in rules]
    found = tuple(ArchitectureClass(rule.name, verdict.lines) for rule, verdict in verdicts if verdict.holds)
    if found:
        return found
    missing = tuple(f"not {rule.name} ({rule.title}): " + "; ".join(verdict.lines) for rule, verdict in verdicts)
    return (ArchitectureClass(UNKNOWN, missing or ("no class rules are given",)),)


def _judge(condition: Condition, fingerprint: Fingerprint) -> _Verdict:
    if isinstance(condition, Count):
        return _judge_count(condition, fingerprint)
    if isinstance(condition, Ratio):
        return _judge_ratio(condition, fingerprint)
    if isinstance(condition, Not):
        inner = _judge(condition.condition, fingerprint)
        return _Verdict(not inner.holds, tuple(f"it has {line}" for line in inner.lines) if inner.holds else ())
    verdicts = [_judge(each, fingerprint) for each in condition.conditions]
    if isinstance(condition, Any):
        return next((each for each in verdicts if each.holds), _Verdict(False, _lines(verdicts)))
    failed = [each for each in verdicts if not each.holds]
    return _Verdict(not failed, _lines(failed or verdicts))


def _lines(verdicts: Iterable[_Verdict]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line for verdict in verdicts for line in verdict.lines))


def _judge_count(condition: Count, fingerprint: Fingerprint) -> _Verdict:
    feature = fingerprint.features.get(condition.feature, Feature(0))
    found = f"{feature.count} `{condition.feature}`"
    if feature.count < condition.minimum:
        return _Verdict(False, (f"{found}, at least {condition.minimum} needed",))
    if condition.maximum is not None and feature.count > condition.maximum:
        return _Verdict(False, (f"{found}, at most {condition.maximum} allowed",))
    values = {"count": feature.count, "first": feature.first, "detail": feature.detail}
    text = condition.evidence.format(feature=condition.feature, **values)
    return _Verdict(True, (text,) if feature.count else ())


def _judge_ratio(condition: Ratio, fingerprint: Fingerprint) -> _Verdict:
    part, whole = fingerprint.count(condition.part), fingerprint.count(condition.whole)
    if not whole or part / whole < condition.minimum:
        found = f"{part} `{condition.part}` for {whole} `{condition.whole}`"
        return _Verdict(False, (f"{found}, a ratio of at least {condition.minimum:g} needed",))
    percent = round(100 * part / whole)
    return _Verdict(True, (condition.evidence.format(part=part, whole=whole, percent=percent),))


def _condition(data: Json, *, rule: str) -> Condition:
    if not isinstance(data, dict):
        raise UserError(f"Class rule `{rule}`: got `{data}`; a condition is a mapping.")
    form = next((form for form in _FORMS if form in data), None)
    if form is None or (unknown := sorted(set(data) - _FORMS[form])):
        got = sorted(data) if form is None else unknown
        raise UserError(f"Class rule `{rule}`: got {got} in a condition; allowed are {_allowed(form)}.")
    try:
        return _read(form, data, rule=rule)
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


def _read(form: str, data: Mapping[str, Json], *, rule: str) -> Condition:
    if form == "feature":
        return _read_count(data)
    if form == "ratio":
        return _read_ratio(data)
    if form == "not":
        return Not(_condition(data["not"], rule=rule))
    conditions = tuple(_condition(each, rule=rule) for each in _listed(data[form]))
    return All(conditions) if form == "all" else Any(conditions)


def _read_count(data: Mapping[str, Json]) -> Count:
    maximum = data.get("max")
    return Count(
        feature=_text(data["feature"]),
        minimum=int(_number(data.get("min", 1))),
        maximum=None if maximum is None else int(_number(maximum)),
        evidence=_template(data.get("evidence", Count.evidence), _COUNT_FIELDS),
    )


def _read_ratio(data: Mapping[str, Json]) -> Ratio:
    part, whole = _listed(data["ratio"])
    return Ratio(
        part=_text(part),
        whole=_text(whole),
        minimum=_number(data.get("min")),
        evidence=_template(data.get("evidence", Ratio.evidence), _RATIO_FIELDS),
    )


def _template(value: Json, names: Iterable[str]) -> str:
    text = _text(value)
    try:
        text.format(**dict.fromkeys(names, 0))
    except (KeyError, IndexError) as error:
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


def _listed(value: Json) -> Sequence[Json]:
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
    return (name for each in condition.conditions for name in _features(each))
