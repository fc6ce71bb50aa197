"""Times NVRTC on one kernel with TVM's headers and with those of ``cuda_libraries.HEADERS``, in turns.

``PYTHONPATH=. TOOLCHAIN/bin/python benchmarks/cuda_headers.py``, with the interpreter of a toolchain that has CUDA; no
device is needed. ``cuda_builds.py`` says for whole networks what the builds are: equal ``code`` is equal instructions.
"""

import json
import time
from statistics import median

from passsearch.standalone.deployment.linker import find_linker
from passsearch.standalone.relax.deployment import cuda_libraries

TURNS = 15
KERNEL = """#include <cuda/std/type_traits>
extern "C" __global__ void __launch_bounds__(64) product(float* result, const float* data, const float* weight) {
  __shared__ float tile[32 * 32];
  float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int outer = 0; outer < 64; ++outer) {
    __syncthreads();
    for (int i = threadIdx.x; i < 1024; i += 64) tile[i] = data[blockIdx.x * 65536 + outer * 1024 + i];
    __syncthreads();
    for (int i = 0; i < 32; ++i)
      for (int row = 0; row < 4; ++row) sums[row] += tile[row * 32 + i] * weight[(outer * 32 + i) * 64 + threadIdx.x];
  }
  for (int row = 0; row < 4; ++row) result[(blockIdx.x * 4 + row) * 64 + threadIdx.x] = fmaxf(sums[row], 0.0f);
}
"""


def main() -> None:
    """Print the medians, their ratio and the sizes as JSON."""
    from tvm.support.nvcc import compile_cuda

    cuda_libraries.prepare(find_linker())
    from cuda.bindings import nvrtc

    small = nvrtc.nvrtcCreateProgram
    headers = {"small": small, "TVM's": small.args[0]}
    seconds: dict[str, list[float]] = {name: [] for name in headers}
    sizes = {}
    for _ in range(TURNS):
        for name, create in headers.items():
            nvrtc.nvrtcCreateProgram = create
            start_s = time.perf_counter()
            sizes[name] = len(compile_cuda(KERNEL, target_format="cubin", arch="sm_90"))
            seconds[name].append(time.perf_counter() - start_s)
    medians = {name: round(median(values), 3) for name, values in seconds.items()}
    ratio = round(median(large / few for large, few in zip(seconds["TVM's"], seconds["small"], strict=True)), 2)
    print(json.dumps({"median_s": medians, "ratio": ratio, "cubin_bytes": sizes, "turns": TURNS}))


if __name__ == "__main__":
    main()
