"""What the ladder reads from assembly, and the overhead of threads that it fits."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def ladder(load_benchmark: Callable[[str], Any]) -> Any:
    return load_benchmark("ladder")


@pytest.fixture
def kernels(load_benchmark: Callable[[str], Any]) -> Any:
    return load_benchmark("ladder_kernels")


ASSEMBLY = """
\tvfmadd231ps\t(%rdi){1to16}, %zmm1, %zmm0
\tvmulps\t%ymm1, %ymm2, %ymm3
\tvaddss\t%xmm1, %xmm2, %xmm3
\tvmovups\t%zmm0, (%rsi)
\tcallq\tTVMBackendParallelLaunch@PLT
"""


def test_vectors_and_calls_of_the_thread_pool_are_read_from_the_assembly(kernels: Any) -> None:
    found = kernels.read_assembly(ASSEMBLY)
    assert found == {"packed": 2, "scalar": 1, "vector_bits": 512, "pool_calls": 1}
    assert kernels.read_assembly("\tvaddss\t%xmm1, %xmm2, %xmm3\n")["vector_bits"] == 0


def test_the_overhead_of_threads_is_fitted(ladder: Any) -> None:
    one = {2**exponent: 1e-9 * 2**exponent for exponent in range(8, 20)}
    curve = {str(size): {"vectors": seconds, "both": 5e-6 + seconds / 2} for size, seconds in one.items()}
    fit = ladder.fit_threads(curve)
    assert fit["overhead_s"] == pytest.approx(5e-6) and fit["share"] == pytest.approx(0.5)
    assert fit["pays_from"] == 2**14
