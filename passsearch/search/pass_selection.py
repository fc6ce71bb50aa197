"""Which passes a search takes from the catalog for one network, and the sequences it starts from."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from passsearch.analysis import ClassRule, check_feature_names, classify, compute_fingerprint
from passsearch.catalog import Catalog, NamedSequence, Selection, bind_pipeline, insert_prerequisites, select_passes
from passsearch.core import ArchitectureClass, Candidate, Fingerprint, ModuleSummary, PassSpec, Pipeline
from passsearch.dialects import Dialect, dialect
from passsearch.errors import UserError
from passsearch.evaluate import Session
from passsearch.search.space import Space, build_at

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NetworkAnalysis:
    """The analysis of a network, and the passes that the catalog selects for it.

    Attributes:
        summary: The dataflow graph.
        fingerprint: Features of the graph.
        classes: Architecture classes with their evidence.
        selection: The catalog's passes, divided into candidates and others, each with the reason.
    """

    summary: ModuleSummary
    fingerprint: Fingerprint
    classes: tuple[ArchitectureClass, ...]
    selection: Selection

    def __repr__(self) -> str:
        classes = "; ".join(f"{label.name} ({', '.join(label.evidence)})" for label in self.classes) or "none"
        return f"{self.summary!r}\nfeatures: {self.fingerprint!r}\nclasses: {classes}\npasses: {self.selection!r}"

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the architecture classes."""
        return tuple(label.name for label in self.classes)

    def space(self, catalog: Catalog, only: Sequence[str] | None = None) -> Space:
        """Return the space of the selected passes, or of the passes named in ``only``."""
        entries = [decision.entry for decision in self.selection.candidates]
        if only is not None:
            entries = [entry for entry in entries if entry.name in only]
        return Space(catalog, tuple(entries), self.fingerprint.present_features(), dialect(catalog.dialect).builds)


def analyze_network(
    session: Session, summary: ModuleSummary, *, requested_passes: Sequence[str] = ()
) -> NetworkAnalysis:
    """Fingerprint a network, find its architecture classes, and select passes by them.

    Args:
        session: Catalog and compiler.
        summary: The network's dataflow graph.
        requested_passes: Passes to select whatever the classes say.

    Raises:
        UserError: The catalog names a feature that does not exist, or has a class rule with a mistake.
    """
    features = compute_fingerprint(summary)
    classes = classify(features, check_features(session.catalog))
    names = [label.name for label in classes]
    version = session.toolchain.tvm_version
    kind = session.device_kind
    selection = select_passes(
        session.catalog,
        names,
        fingerprint=features,
        requested_passes=requested_passes,
        tvm_version=version,
        device=kind,
    )
    _log.info("classes of the network: %s; %d candidate passes", ", ".join(names) or "none", len(selection.candidates))
    for decision in (*selection.candidates, *selection.others):
        _log.debug("%s: %s", decision.entry.name, decision.reason)
    return NetworkAnalysis(summary, features, classes, selection)


def check_features(catalog: Catalog) -> tuple[ClassRule, ...]:
    """Return the class rules of a catalog.

    Raises:
        UserError: The catalog names a feature that does not exist, or has a class rule with a mistake.
    """
    rules = tuple(ClassRule.from_json(rule) for rule in catalog.rules)
    for rule in rules:
        check_feature_names(sorted(rule.features()), place=f"Class rule `{rule.name}`")
    for entry in catalog.entries.values():
        place = f"`{entry.origin}`, pass `{entry.name}`"
        check_feature_names(entry.features, place=f"{place}, field `features`")
        for need in entry.needs:
            check_feature_names(need.when, place=f"{place}, field `needs.when`")
    for sequence in catalog.sequences.values():
        place = f"`{sequence.origin}`, sequence `{sequence.name}`, field `features`"
        check_feature_names([*sequence.features, *sequence.recommended_for], place=place)
    return rules


def explored_passes(
    session: Session,
    summary: ModuleSummary,
    *,
    passes: Sequence[str] | None,
    additional: Sequence[str] = (),
    every: bool = False,
) -> tuple[tuple[PassSpec, ...], tuple[str, ...]]:
    """Return the passes to explore, with every choice of arguments, and the names of those left out.

    Passes with which the space would never close are left out, unless they are named in ``additional``.

    Args:
        session: Catalog and compiler.
        summary: The network's dataflow graph.
        passes: The only passes to explore, each a name (all its choices) or written out with its arguments.
        additional: Passes to add that are explored on request only.
        every: True to take the catalog's candidates whatever the network's classes and features; not with ``passes``.

    Raises:
        UserError: The catalog has no such pass, it takes no such argument, or ``passes`` stands beside ``every``.
    """
    if passes is not None:
        if every:
            raise UserError("`passes` names the passes to explore, so `every` has no effect; leave one of them out.")
        steps = [step for text in (*passes, *additional) for step in Pipeline.parse(text).passes]
        if not steps:
            raise UserError("No pass to explore; give for example: --passes SimplifyInference,FoldConstant,FuseOps")
        # Only to refuse impossible arguments: the passes stay as the user wrote them, and a name stands for all
        # choices.
        bind_pipeline(Pipeline(tuple(step for step in steps if step.arguments)), session.catalog)
        variants = [[step] if step.arguments else session.catalog.entry(step.name).variants() for step in steps]
        return tuple(dict.fromkeys(spec for specs in variants for spec in specs)), ()
    # Without classes and features no rule of the catalog speaks against a pass.
    if every:
        selection = select_passes(
            session.catalog,
            (),
            fingerprint=Fingerprint(),
            requested_passes=additional,
            tvm_version=session.toolchain.tvm_version,
            device=session.device_kind,
        )
    else:
        selection = analyze_network(session, summary, requested_passes=additional).selection
    entries = [decision.entry for decision in selection.candidates]
    left_out = tuple(entry.name for entry in entries if entry.unbounded and entry.name not in additional)
    return tuple(spec for entry in entries if entry.name not in left_out for spec in entry.variants()), left_out


def baselines(session: Session, analysis: NetworkAnalysis) -> tuple[Candidate, ...]:
    """Return the compiler's levels, and the catalog's baselines for networks with these features."""
    return (*session.dialect.baselines, *session.catalog.baselines(analysis.fingerprint.present_features()))


def first_trials(
    session: Session, analysis: NetworkAnalysis, *, only: Sequence[str] | None = None, for_speed: bool = True
) -> tuple[Candidate, ...]:
    """Return the catalog's named sequences for a session's device; see ``starting_sequences``."""
    features, kind = analysis.fingerprint.present_features(), session.device_kind
    return starting_sequences(session.catalog, features=features, device_kind=kind, only=only, for_speed=for_speed)


def starting_sequences(
    catalog: Catalog,
    *,
    features: frozenset[str],
    device_kind: str,
    only: Sequence[str] | None = None,
    for_speed: bool = True,
) -> tuple[Candidate, ...]:
    """Return the catalog's named sequences for one kind of device, with prerequisite passes inserted.

    A search evaluates them before its sampler starts. For speed, those that schedule single kernels come first: they
    are the fastest on most networks, and without one of them a short time limit ends before anything is composed. Then
    come the baseline's own passes (``O3-passes`` and the like): they usually make the baseline's own binary in less
    time, and then they cannot lose. The shortest follow.

    Args:
        catalog: Catalog with the sequences.
        features: Features of the network; they decide which sequences and prerequisites apply.
        device_kind: ``cpu`` or ``gpu``.
        only: Names of the passes that are searched; sequences with other passes are left out.
        for_speed: True if the first objective of the search is how fast the network runs.
    """
    compiler = dialect(catalog.dialect)
    sequences = [
        replace(
            _with_search_build(sequence, compiler),
            pipeline=insert_prerequisites(sequence.pipeline, catalog, features=features),
        )
        for sequence in catalog.sequences.values()
        if sequence.starts_search and sequence.suits(features) and _runs_on(device_kind, sequence, catalog)
    ]
    allowed = [candidate for candidate in sequences if only is None or _names(candidate) <= set(only)]
    # Early, because a search with few trials must not end before it has the baseline's binary by the quicker pipeline.
    own = f"{compiler.default_baseline}-passes"

    def order(trial: Candidate) -> tuple[bool, bool, int]:
        is_scheduled = any(catalog.entries[step.name].kernel_parameter for step in trial.pipeline.passes)
        return for_speed and not is_scheduled, not trial.name.startswith(own), len(trial.pipeline)

    return tuple(sorted(allowed, key=order))


def _with_search_build(sequence: NamedSequence, compiler: Dialect) -> Candidate:
    """Return a sequence with the options by which a search builds its level."""
    return replace(sequence.candidate(), build=build_at(sequence.build.opt_level, compiler.builds))


def _runs_on(device_kind: str, sequence: NamedSequence, catalog: Catalog) -> bool:
    limits = [sequence.devices, *(catalog.entries[step.name].devices for step in sequence.pipeline.passes)]
    return all(device_kind in devices for devices in limits if devices)


def _names(candidate: Candidate) -> set[str]:
    return {step.name for step in candidate.pipeline.passes}


def named_candidate(session: Session, name: str) -> Candidate:
    """Return the candidate a user names: a baseline, a named sequence or a pipeline written out.

    Raises:
        UserError: The name is none of these.
    """
    for baseline in session.dialect.baselines:
        if baseline.name == name:
            return baseline
    if name in session.catalog.sequences:
        sequence = session.catalog.sequence(name)
        # Sequences that no search tries keep their own build, as the paper's do.
        return _with_search_build(sequence, session.dialect) if sequence.starts_search else sequence.candidate()
    names = ", ".join([*(baseline.name for baseline in session.dialect.baselines), *session.catalog.sequences])
    # A single unknown word is more likely a mistyped name than a pass, so the message lists names.
    if "," not in name and "{" not in name and name not in session.catalog.entries:
        raise UserError(f"Unknown pipeline `{name}`; give a pipeline file, passes, or one of: {names}.")
    return Candidate(Pipeline.parse(name), name=name)


def with_prerequisites(session: Session, analysis: NetworkAnalysis, candidate: Candidate) -> Candidate:
    """Return a named sequence with prerequisite passes inserted; a pipeline written out stays as it is."""
    # What a user writes out is measured exactly so, even where a pass will fail.
    if candidate.name not in session.catalog.sequences:
        return candidate
    features = analysis.fingerprint.present_features()
    return replace(candidate, pipeline=insert_prerequisites(candidate.pipeline, session.catalog, features=features))
