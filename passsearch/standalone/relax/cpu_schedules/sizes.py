"""Divisors of a size, and numbers of its equal parts."""

from __future__ import annotations

CHUNKS = 64
"""Most parts of a loop over elements or small tiles that threads share."""

MIN_CHUNKS = 16
"""Number of parts of a loop that a few threads share evenly."""

CHUNKS_OF_A_THREAD = 8
"""Most parts of such a loop for each of many threads."""

MOST_IMBALANCE = 1.25
"""Largest imbalance of parts; beyond it threads share all iterations, each of which allocates what it needs."""

FEW_THREADS = 4
"""Number of threads up to which the tilings need not know it: the parts are so many that each has an equal share."""

LONG_HALF = 8
"""Half of a register of 16 elements, 512 bits in float32. Half of a shorter one gains nothing over 5 to 7 elements."""

LONG_ROW = 4
"""Vectors from which one more costs a row less than halves of vectors do."""

MOST_ELEMENTS = (1 << 31) - 1
"""Most elements of a tensor whose indices have 32 bits, as those of loops that are written out here have."""

MIN_PARALLEL_ELEMENTS = 4096
"""Size from which a loop runs on several threads; starting them takes longer than a smaller loop."""


def largest_divisor(size: int, most: int) -> int:
    """Return the largest divisor up to ``most``."""
    return max(divisor for divisor in range(1, max(most, 1) + 1) if size % divisor == 0)


def dividing_lanes(size: int, most: int) -> int:
    """Return the elements of vectors that divide an axis, of ``most`` in a register.

    Half of a register of 16 elements, before 9 to 15 of them: LLVM loads such vectors in two to four parts.
    """
    lanes = largest_divisor(size, most)
    return LONG_HALF if most == 2 * LONG_HALF > lanes > LONG_HALF and size % LONG_HALF == 0 else lanes


def vector_lanes(size: int, most: int) -> int:
    """Return the elements of a vector along an axis of this size, of ``most`` in a register.

    Where no number above half of a register divides the size, the last vector overlaps with the one before.
    """
    lanes = dividing_lanes(size, most)
    return most if size >= most > 2 * lanes else lanes


def row_lanes(size: int, most: int) -> int:
    """Return the elements of a vector along a row that is reduced: all of a register unless a short row has others.

    LLVM loads, adds up and stores vectors of 5 to 7 elements in two or three parts.
    """
    lanes = vector_lanes(size, most)
    is_short = size < LONG_ROW * most and lanes.bit_count() == 1
    return lanes if is_short or size < most else most


def all_divisors(size: int) -> list[int]:
    """Return all divisors."""
    return [divisor for divisor in range(1, size + 1) if size % divisor == 0]


def part_count(size: int, part: int) -> int:
    """Return how many parts of size ``part`` cover ``size``."""
    return -(-size // part)


def chunk_count(size: int, threads: int) -> int:
    """Return the number of equal parts of a loop that threads share, all iterations if there are no such parts."""
    if threads <= FEW_THREADS:
        chunks = largest_divisor(size, CHUNKS)
        return chunks if chunks >= MIN_CHUNKS else size
    most = min(size, max(CHUNKS, CHUNKS_OF_A_THREAD * threads))
    parts = [each for each in range(1, most + 1) if size % each == 0]
    chunks = min(parts, key=lambda each: (imbalance(each, threads), each))
    # A large prime number of iterations has no parts but one, and threads must share it all the same.
    return chunks if imbalance(chunks, threads) <= MOST_IMBALANCE else size


def imbalance(parts: int, threads: int) -> float:
    """Return the time of equal parts as a multiple of that of equal shares.

    TVM gives every thread the same number of parts, rounded up, and the last ones what is left.
    """
    return part_count(parts, threads) * threads / parts if threads > FEW_THREADS else 1.0
