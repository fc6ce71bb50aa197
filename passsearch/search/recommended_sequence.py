"""The catalog's sequences in the order in which they are recommended for a network, without a search."""

from collections.abc import Mapping, Sequence

from passsearch.catalog import read_corpus
from passsearch.core import Candidate
from passsearch.evaluate import Session
from passsearch.search.corpus_recommendation import CorpusAdvice, advise, order_by_nearest, similar_processor
from passsearch.search.pass_selection import NetworkAnalysis, first_trials


def recommended_sequences(session: Session, analysis: NetworkAnalysis) -> tuple[Candidate, ...]:
    """Return the sequences that suit a network, the recommended one first; the baseline alone where none does.

    The order is that of the nearest networks of the corpus; of the catalog's ``recommended`` where the corpus has no
    processor like the target, or too few networks like this one. A sequence for whose features the network gives no
    reason comes after those for which it does.
    """
    wanted, rest = sequences_in_catalog_order(session, analysis)
    corpus = read_corpus(session.dialect.name)
    kind = similar_processor(corpus, session.target)
    if kind is not None:
        networks = corpus.processors[kind].networks
        names = order_by_nearest(networks, analysis.class_names, feature_counts(analysis), [*wanted])
        wanted = {name: wanted[name] for name in names}
    return (*wanted.values(), *rest.values()) or (session.dialect.baseline,)


def corpus_advice(session: Session, analysis: NetworkAnalysis, suited: Sequence[Candidate]) -> CorpusAdvice:
    """Return what the corpus says of a network and the sequences that suit it, the recommended one first."""
    return advise(
        read_corpus(session.dialect.name),
        session.target,
        classes=analysis.class_names,
        features=feature_counts(analysis),
        suited=[candidate.name for candidate in suited],
    )


def sequences_in_catalog_order(
    session: Session, analysis: NetworkAnalysis
) -> tuple[dict[str, Candidate], dict[str, Candidate]]:
    """Return the sequences for which the network gives a reason, and the others that suit it, by name.

    Both are in the order of the catalog's ``recommended``.
    """
    features, declared = analysis.fingerprint.present_features(), session.catalog.sequences
    suited = [each for each in first_trials(session, analysis) if declared[each.name].recommended]
    wanted: dict[str, Candidate] = {}
    rest: dict[str, Candidate] = {}
    for each in sorted(suited, key=lambda each: declared[each.name].recommended):
        reasons = declared[each.name].recommended_for or declared[each.name].features
        (rest if reasons and set(reasons).isdisjoint(features) else wanted)[each.name] = each
    return wanted, rest


def feature_counts(analysis: NetworkAnalysis) -> Mapping[str, int]:
    """Return how often a network has each of its features."""
    fingerprint = analysis.fingerprint
    return {name: fingerprint.count(name) for name in sorted(fingerprint.present_features())}
