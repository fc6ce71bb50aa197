"""Which passes a search takes from the catalog for one network, and the sequences it starts from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from passsearch.analysis import ClassRule, classify, fingerprint
from passsearch.catalog import Catalog, Selection, bind_pipeline, candidates, with_needs
from passsearch.core import ArchitectureClass, Candidate, Fingerprint, ModuleSummary, PassSpec, Pipeline
from passsearch.dialects import dialect
from passsearch.errors import UserError
from passsearch.evaluate import Session
from passsearch.search.space import Space, build_at


@dataclass(frozen=True)
class NetworkAnalysis:
    """What the analyzer makes of a network, and what the catalog makes of that."""

    summary: ModuleSummary
    fingerprint: Fingerprint
    classes: tuple[ArchitectureClass, ...]
    selection: Selection

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes."""
        return tuple(each.name for each in self.classes)

    def space(self, catalog: Catalog, only: Sequence[str] | None = None) -> Space:
        """The sequences the network's classes leave."""
        entries = [ruling.entry for ruling in self.selection.kept]
        if only is not None:
            entries = [entry for entry in entries if entry.name in only]
        return Space(catalog, tuple(entries), self.fingerprint.present(), dialect(catalog.dialect).builds)


def analyze_network(session: Session, summary: Mapping[str, object], *, wanted: Sequence[str] = ()) -> NetworkAnalysis:
    """Fingerprint a network, find its classes and let them divide the catalog."""
    graph = ModuleSummary.from_json(summary)
    features = fingerprint(graph)
    classes = classify(features, tuple(ClassRule.from_json(rule) for rule in session.catalog.rules))
    names = [each.name for each in classes]
    version = session.toolchain.tvm_version
    kind = session.device_kind
    selection = candidates(session.catalog, names, fingerprint=features, wanted=wanted, tvm_version=version, device=kind)
    return NetworkAnalysis(graph, features, classes, selection)


def explored_passes(
    session: Session,
    summary: Mapping[str, object],
    *,
    passes: Sequence[str] | None,
    additional: Sequence[str] = (),
    every: bool = False,
) -> tuple[tuple[PassSpec, ...], tuple[str, ...]]:
    """The passes whose space is explored, with every choice of arguments, and the names of those left out.

    Left out are passes with which the space would never close, unless they are asked for.

    Args:
        session: Gives the catalog.
        summary: Of the network.
        passes: These alone, each a name (all its choices) or written out with its arguments.
        additional: Passes to add that must be asked for.
        every: Take the catalog's candidates whatever the network's classes and features.

    Raises:
        UserError: The catalog has no such pass, or it takes no such argument.
    """
    if passes is not None:
        written = [step for text in passes for step in Pipeline.parse(text).passes]
        if not written:
            raise UserError("No pass to explore; give for example: --passes SimplifyInference,FoldConstant,FuseOps")
        bind_pipeline(Pipeline(tuple(step for step in written if step.arguments)), session.catalog)
        variants = [[step] if step.arguments else session.catalog.entry(step.name).variants() for step in written]
        return tuple(dict.fromkeys(spec for specs in variants for spec in specs)), ()
    if every:
        selection = candidates(
            session.catalog,
            (),
            fingerprint=Fingerprint(),
            wanted=additional,
            tvm_version=session.toolchain.tvm_version,
            device=session.device_kind,
        )
    else:
        selection = analyze_network(session, summary, wanted=additional).selection
    entries = [ruling.entry for ruling in selection.kept]
    left_out = tuple(entry.name for entry in entries if entry.unbounded and entry.name not in additional)
    return tuple(spec for entry in entries if entry.name not in left_out for spec in entry.variants()), left_out


def first_trials(session: Session, analysis: NetworkAnalysis, *, only: Sequence[str] | None = None) -> tuple[Candidate, ...]:
    """The catalog's named sequences for this device, passes they need put in: knowledge before the sampler starts.

    The baseline's own passes, ``O3-passes`` and the like, come first: they usually make its very binary by a quicker
    way, and cannot lose then. After these the shortest. Where the user names the passes to search, a sequence with any
    other is left out.
    """
    entries, kind = session.catalog.entries, session.device_kind
    present = analysis.fingerprint.present()
    sequences = [
        replace(
            each.candidate(),
            pipeline=with_needs(each.pipeline, session.catalog, present=present),
            build=build_at(each.build.opt_level, session.dialect.builds),
        )
        for each in session.catalog.sequences.values()
        if each.tried and all(kind in (entries[step.name].devices or (kind,)) for step in each.pipeline.passes)
    ]
    allowed = [each for each in sequences if only is None or {step.name for step in each.pipeline.passes} <= set(only)]
    own = f"{session.dialect.default_baseline}-passes"
    return tuple(sorted(allowed, key=lambda each: (not each.name.startswith(own), len(each.pipeline))))


def named_candidate(session: Session, name: str) -> Candidate:
    """A candidate from what the user typed: a baseline, a named sequence or a pipeline written out.

    Raises:
        UserError: It is none of these.
    """
    for baseline in session.dialect.baselines:
        if baseline.name == name:
            return baseline
    if name in session.catalog.sequences:
        return session.catalog.sequence(name).candidate()
    known = ", ".join([*(each.name for each in session.dialect.baselines), *session.catalog.sequences])
    if "," not in name and "{" not in name and name not in session.catalog.entries:
        raise UserError(f"Unknown pipeline `{name}`; give a pipeline file, passes, or one of: {known}.")
    return Candidate(Pipeline.parse(name), name=name)
