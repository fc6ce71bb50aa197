"""Whether a search of a network is worth its time, by what searches of other networks have added."""

from collections.abc import Sequence

from passsearch.core import Candidate
from passsearch.evaluate import Session
from passsearch.search.options import RunOptions
from passsearch.search.pass_selection import NetworkAnalysis
from passsearch.search.recommended_sequence import corpus_advice, recommended_sequences


def needless_search(
    session: Session, options: RunOptions, analysis: NetworkAnalysis, *, first: Sequence[Candidate]
) -> str:
    """Return why the recommended sequence is enough; empty where a search may add as much as the user asks for.

    Args:
        session: The session.
        options: The options of the run.
        analysis: The network's analysis.
        first: What the search measures first, in its order.
    """
    is_speed = len(options.objectives) == 1 and options.objectives[0].is_speed
    # Passes that the user names are measured whatever others have gained, and so are precisions.
    if not is_speed or options.requested_passes or session.budget is not None or not options.least_gain:
        return ""
    suited = recommended_sequences(session, analysis)
    if suited[0].name not in session.catalog.sequences or not first or first[0].name != suited[0].name:
        return ""  # nothing is recommended, or another sequence was the fastest in an earlier run
    bound = corpus_advice(session, analysis, suited).bound
    if bound is None or bound.most >= options.least_gain:
        return ""
    added = f"a search adds at most {100 * bound.most:.1f} % to the recommended sequence"
    return f"{added} ({100 * bound.level:.0f} % level; {bound.method}); --least-gain 0 searches in any case"
