"""The repeated blocks of a network in the kernel calls of a build of it."""

from collections import Counter
from collections.abc import Sequence

from passsearch.analysis.graph import Dataflow, dataflow
from passsearch.analysis.kinds import HEAVY
from passsearch.analysis.structure import repeated_blocks
from passsearch.core import ModuleSummary

BEFORE, AFTER = "before the blocks", "after the blocks"

_HEAVY_WORDS = frozenset(kind.rpartition("_")[2] for kind in HEAVY) - {"transpose"}
"""Words in a kernel's name that say that it computes a convolution or a product of matrices."""


def parts_of_calls(summary: ModuleSummary, kernels: Sequence[str]) -> list[str] | None:
    """Return the part of the network that each kernel call computes: a block by its number, or what is beside them.

    Convolutions and products of matrices are counted in both: the calls are in the order of the operators. A kernel
    without one belongs to the part of the call before it. Where a build merges or splits operators, every block is
    taken to have equally many calls more or fewer. ``None`` if the network repeats no block, or the numbers do not
    agree.

    Args:
        summary: The network.
        kernels: Names of the kernels by call, which list their operators.
    """
    flow = dataflow(summary)
    parts = _parts_of_operators(flow, repeated_blocks(flow))
    heavy = [_is_heavy(kernel) for kernel in kernels]
    # A dictionary, because it has the parts in their order.
    counts = _resized(dict(Counter(parts)), calls=sum(heavy))
    if counts is None:
        return None
    sequence = [part for part, count in counts.items() for _ in range(count)]
    done, result = 0, []
    for is_heavy in heavy:
        done += is_heavy
        result.append(sequence[max(done - 1, 0)])
    return result


def _parts_of_operators(flow: Dataflow, blocks: Sequence[Sequence[int]]) -> list[str]:
    """Return the part of every convolution and product, in order; empty without blocks."""
    owner = {index: number for number, block in enumerate(blocks, start=1) for index in block}
    parts, last = [], 0
    for operator in flow.of_kind(HEAVY):
        if number := owner.get(operator.index, 0):
            last = number
            parts.append(f"block {number}")
        else:
            parts.append(BEFORE if not last else AFTER if last == len(blocks) else f"after block {last}")
    return parts if blocks else []


def _resized(counts: dict[str, int], *, calls: int) -> dict[str, int] | None:
    """Return how many calls each part has; ``None`` if the calls cannot be shared out."""
    blocks = [part for part in counts if part.startswith("block ")]
    more, rest = divmod(calls - sum(counts.values()), len(blocks)) if blocks else (0, 1)
    if rest or any(counts[part] + more < 1 for part in blocks):
        return None
    return {part: count + more * (part in blocks) for part, count in counts.items()}


def _is_heavy(kernel: str) -> bool:
    # Functions of one name are numbered: ``matmul3``.
    return any(word.rstrip("0123456789") in _HEAVY_WORDS for word in kernel.split("_"))
