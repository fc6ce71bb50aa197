"""The catalog's sequences in the order in which they are recommended for a network, without a search."""

from passsearch.core import Candidate
from passsearch.evaluate import Session
from passsearch.search.pass_selection import NetworkAnalysis, first_trials


def recommended_sequences(session: Session, analysis: NetworkAnalysis) -> tuple[Candidate, ...]:
    """Return the sequences that suit a network, the recommended one first; the baseline alone where none does.

    The order is that of the catalog's ``recommended``; a sequence for whose features the network gives no reason comes
    after those for which it does.
    """
    features, declared = analysis.fingerprint.present_features(), session.catalog.sequences

    def order(candidate: Candidate) -> tuple[bool, int]:
        sequence = declared[candidate.name]
        wanted = sequence.recommended_for or sequence.features
        return bool(wanted) and set(wanted).isdisjoint(features), sequence.recommended

    suited = [each for each in first_trials(session, analysis) if declared[each.name].recommended]
    return tuple(sorted(suited, key=order)) or (session.dialect.baseline,)
