"""The proof that the network as imported computes what its source does."""

from collections.abc import Callable, Sequence

from passsearch.core import IMPORT, Failure, PassSpec
from passsearch.errors import UserError
from passsearch.evaluate.facts import read_fact
from passsearch.evaluate.first_difference import locate_difference
from passsearch.evaluate.pool import WorkerPool
from passsearch.evaluate.records import BuildFact, Network
from passsearch.evaluate.session import Session
from passsearch.evaluate.source_reference import SourceReference
from passsearch.evaluate.verify import Allowance, VerifyFact, judge
from passsearch.store import Fact


def prove_import(
    session: Session,
    source: SourceReference,
    *,
    network: Network,
    pool: WorkerPool,
    cases: Sequence[int | str],
    limit: float,
    build: Callable[[Sequence[PassSpec]], Fact],
) -> None:
    """Make sure that the network as imported computes what its source does.

    Args:
        session: The session.
        source: What computed the expected outputs.
        network: The imported network.
        pool: Starts the processes that look for the node.
        cases: Inputs on which outputs are compared.
        limit: Largest deviation that rounding explains.
        build: Builds the import after some passes, and compares its outputs.

    Raises:
        UserError: It does not; the message names what differs, and from which node on.
    """
    reason, case = "", cases[0]
    # Schedules first, because TVM's own default may take seconds to run; without any pass if these are at fault.
    for steps in dict.fromkeys((session.reference_steps, ())):
        record = read_fact(build(steps), BuildFact.from_fact)
        verification = None if isinstance(record, Failure) else record.verification
        # TVM's own operators drop NaN: the result says so, and no network is refused for it.
        judged = record if verification is None else judge(verification, Allowance(limit, may_drop=True))
        # A build that fails says nothing about the import.
        if not isinstance(judged, Failure) or judged.kind != "wrong_result":
            return
        reason, case = judged.reason, _telling_case(verification, cases, limit=limit)
    place = locate_difference(session, case=case, network=network, pool=pool, limit=limit)
    raise UserError(
        f"`{session.model.source}` is imported as another network than {source.runtime} runs: {reason}; "
        f"{place}. Export it otherwise, choose another toolchain, or measure the import as it is with --reference "
        f"{IMPORT}, which the result and its export then say."
    )


def _telling_case(verification: VerifyFact | None, cases: Sequence[int | str], *, limit: float) -> int | str:
    """Return the inputs on which to look for the first node that differs: random ones where they differ too."""
    # On an edge case a value may be the difference of equal numbers, which says nothing about its node.
    seeds = [case for case in cases if isinstance(case, int)]
    if verification is None:
        return seeds[0]
    wrong = (case for case in seeds if not verification.by_case.get(str(case), 0.0) <= limit)
    return next(wrong, verification.case)
