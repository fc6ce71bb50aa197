"""The kind of failure that an error of the compiler or of its runtime is. Standard library only."""

SIGNS = {
    "oom": ("bad_alloc", "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY"),
    "crash": ("CUDA Runtime Error", "CUDALaunch Error", "failed with error: CUDA_ERROR"),
}
"""Parts of messages by kind of failure, in the order in which they count; others are errors of the compiler.

A GPU that another process has filled is an accident, and kernels that end its context are what a crash is on a CPU.
"""


def failure_kind(message: str) -> str:
    """Return the kind of an error by its message."""
    kinds = (kind for kind, signs in SIGNS.items() if any(sign in message for sign in signs))
    return next(kinds, "compile_error")
