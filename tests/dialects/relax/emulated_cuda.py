"""CUDA kernels that TVM generated, run on the CPU: each thread is a coroutine of a C++ program.

The instructions for a whole warp do what the PTX ISA says, on the registers of its 32 threads: ``mma.sync`` of 16 by 8
results and ``ldmatrix``. So the place of every value in shared memory and registers is that of the device code, and is
not taken from descriptions. Threads take turns at these instructions and at barriers only, forwards or backwards:
kernels whose results depend on the order miss a barrier. Addresses of ``ldmatrix`` are checked, conflicts of the banks
of shared memory counted, and arrays lie between fences that may not be changed.

TVM's own helpers before the kernels are replaced, not emulated: vectors and their ``make_``, packing, conversions and
``h`` functions of 16 bits, the rounding to TF32, ``ptx_cp_async_legacy`` and the groups of ``cp.async``.

For scripts of this folder that run where TVM's Relax is.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_PREAMBLE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>
using std::max; using std::min;
typedef unsigned uint; typedef unsigned short ushort; typedef unsigned char uchar; typedef _Float16 half;
struct nv_bfloat16 {
  uint16_t bits;
  nv_bfloat16() = default;
  nv_bfloat16(float value) {
    uint32_t word; memcpy(&word, &value, 4);
    bits = uint16_t((word + 0x7fff + (word >> 16 & 1)) >> 16);
  }
  operator float() const { uint32_t word = uint32_t(bits) << 16; float value; memcpy(&value, &word, 4); return value; }
};
typedef nv_bfloat16 __nv_bfloat16;
struct half2 { half x, y; }; struct nv_bfloat162 { nv_bfloat16 x, y; };
#define VECTORS(type, name) \
  struct name##1 { type x; }; struct name##2 { type x, y; }; struct name##4 { type x, y, z, w; }; \
  static inline name##1 make_##name##1(type x) { return {x}; } \
  static inline name##2 make_##name##2(type x, type y) { return {x, y}; } \
  static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
VECTORS(float, float) VECTORS(unsigned, uint) VECTORS(int, int) VECTORS(uchar, uchar) VECTORS(signed char, char)
static inline half2 make_half2(half x, half y) { return {x, y}; }
struct half4 { half x, y, z, w; };
static inline half4 make_half4(half x, half y, half z, half w) { return {x, y, z, w}; }
static inline half __float2half_rn(float value) { return half(value); }
static inline nv_bfloat16 __float2bfloat16_rn(float value) { return nv_bfloat16(value); }
template <class T> static unsigned pack(T x, T y) {
  uint16_t low, high; memcpy(&low, &x, 2); memcpy(&high, &y, 2); return unsigned(high) << 16 | low;
}
#define __pack_half2 pack<half>
#define __pack_nv_bfloat162 pack<nv_bfloat16>
static half herf(half x) { return half(erff(float(x))); }
static half hexp(half x) { return half(expf(float(x))); }
static half htanh(half x) { return half(tanhf(float(x))); }
#define __global__
#define __launch_bounds__(number)
#define __restrict__

struct dim3 { int x, y, z; };
struct Warp { int arrived = 0; unsigned turn = 0; uintptr_t rows[32]; unsigned *registers[32][10]; };
static dim3 blockIdx, blockDim, gridDim;
static dim3 *thread;
#define threadIdx (*thread)
static std::vector<ucontext_t> contexts;
static std::vector<dim3> threads;
static std::vector<bool> ended;
static std::vector<Warp> warps;
static ucontext_t scheduler;
static int current, waiting;
static unsigned barrier;
extern "C" long conflicts, loads, multiplications, copies;
long conflicts, loads, multiplications, copies;

static void yield() { swapcontext(&contexts[current], &scheduler); }
static void __syncthreads() {
  unsigned turn = barrier;
  if (++waiting == int(threads.size())) { waiting = 0; ++barrier; }
  while (barrier == turn) yield();
}
template <class F> static void together(F all) {
  int own = current;
  Warp &warp = warps[own / 32];
  unsigned turn = warp.turn;
  if (++warp.arrived == 32) { all(warp); warp.arrived = 0; ++warp.turn; }
  while (warp.turn == turn) yield();
}
// cvt.rna.tf32.f32: to the nearest of 10 bits after the point, ties away from zero.
static float round_to_tf32(float value) {
  unsigned word; memcpy(&word, &value, 4);
  if ((word & 0x7f800000) != 0x7f800000) word += 0x1000;
  word &= 0xffffe000;
  memcpy(&value, &word, 4); return value;
}
static float as_float(unsigned word) { float value; memcpy(&value, &word, 4); return value; }
static uint16_t part(unsigned word, int place) { return uint16_t(place ? word >> 16 : word); }
template <class T> static float number(unsigned word, int place) {
  uint16_t bits = part(word, place); T value; memcpy(&value, &bits, 2); return float(value);
}

// ldmatrix.sync.aligned.m8n8.x4: threads 8m to 8m + 7 have the addresses of the rows of matrix m.
static void load_matrices(bool transposed, uintptr_t row, std::vector<unsigned *> into) {
  Warp &warp = warps[current / 32];
  warp.rows[current % 32] = row;
  for (int place = 0; place < 4; ++place) warp.registers[current % 32][place] = into[place];
  together([transposed](Warp &warp) {
    ++loads;
    for (int matrix = 0; matrix < 4; ++matrix) {
      unsigned banks = 0;
      for (int row = 0; row < 8; ++row) {
        uintptr_t at = warp.rows[8 * matrix + row];
        if (at % 16) { fprintf(stderr, "a row of ldmatrix is not aligned\n"); abort(); }
        unsigned group = 1u << (at / 16 % 8);
        conflicts += (banks & group) != 0;
        banks |= group;
      }
      for (int lane = 0; lane < 32; ++lane) {
        uint16_t pair[2];
        for (int place = 0; place < 2; ++place) {
          int first = lane / 4, second = 2 * (lane % 4) + place;
          if (transposed) std::swap(first, second);
          memcpy(&pair[place], (uint16_t *)warp.rows[8 * matrix + first] + second, 2);
        }
        *warp.registers[lane][matrix] = unsigned(pair[1]) << 16 | pair[0];
      }
    }
  });
}

// mma.sync.aligned.m16n8k8 and m16n8k16, fragments as in the PTX ISA ("Matrix Fragments for mma.m16n8k16").
template <class T> static void multiply(int steps, float **sums, std::vector<unsigned *> factors) {
  int lane = current % 32, left_words = steps / 4;
  Warp &warp = warps[current / 32];
  for (int place = 0; place < 4; ++place) warp.registers[lane][place] = (unsigned *)sums[place];
  // The factors are read when all threads have come: a copy, as their registers do not change until then.
  for (size_t place = 0; place < factors.size(); ++place) warp.registers[lane][4 + place] = factors[place];
  together([=](Warp &warp) {
    ++multiplications;
    float left[16][16], right[16][8];
    for (int lane = 0; lane < 32; ++lane)
      for (int place = 0; place < 2; ++place) {
        for (int word = 0; word < left_words; ++word)
          left[lane / 4 + 8 * (word % 2)][2 * (lane % 4) + place + 8 * (word / 2)] =
              number<T>(*warp.registers[lane][4 + word], place);
        for (int word = 0; word < left_words / 2; ++word)
          right[2 * (lane % 4) + place + 8 * word][lane / 4] =
              number<T>(*warp.registers[lane][4 + left_words + word], place);
      }
    for (int lane = 0; lane < 32; ++lane)
      for (int place = 0; place < 4; ++place) {
        float *sum = (float *)warp.registers[lane][place];
        int row = lane / 4 + 8 * (place / 2), column = 2 * (lane % 4) + place % 2;
        for (int step = 0; step < steps; ++step) *sum += left[row][step] * right[step][column];
      }
  });
}
// mma.sync.aligned.m16n8k8 of TF32: the last 13 bits of factors do not count.
static void multiply_tf32(float **sums, std::vector<unsigned *> factors) {
  int lane = current % 32;
  Warp &warp = warps[current / 32];
  for (int place = 0; place < 4; ++place) warp.registers[lane][place] = (unsigned *)sums[place];
  for (int place = 0; place < 6; ++place) warp.registers[lane][4 + place] = factors[place];
  together([](Warp &warp) {
    ++multiplications;
    float left[16][8], right[8][8];
    for (int lane = 0; lane < 32; ++lane) {
      for (int word = 0; word < 4; ++word)
        left[lane / 4 + 8 * (word % 2)][lane % 4 + 4 * (word / 2)] =
            as_float(*warp.registers[lane][4 + word] & 0xffffe000);
      for (int word = 0; word < 2; ++word)
        right[lane % 4 + 4 * word][lane / 4] = as_float(*warp.registers[lane][8 + word] & 0xffffe000);
    }
    for (int lane = 0; lane < 32; ++lane)
      for (int place = 0; place < 4; ++place) {
        float *sum = (float *)warp.registers[lane][place];
        int row = lane / 4 + 8 * (place / 2), column = 2 * (lane % 4) + place % 2;
        for (int step = 0; step < 8; ++step) *sum += left[row][step] * right[step][column];
      }
  });
}
// mma.sync.aligned.m16n8k32 of 8 bits, L and R with or without a sign; sums are int32.
template <class L, class R> static void multiply_integers(int **sums, std::vector<unsigned *> factors) {
  int lane = current % 32;
  Warp &warp = warps[current / 32];
  for (int place = 0; place < 4; ++place) warp.registers[lane][place] = (unsigned *)sums[place];
  for (int place = 0; place < 6; ++place) warp.registers[lane][4 + place] = factors[place];
  together([](Warp &warp) {
    ++multiplications;
    int left[16][32], right[32][8];
    for (int lane = 0; lane < 32; ++lane)
      for (int place = 0; place < 4; ++place) {
        for (int word = 0; word < 4; ++word)
          left[lane / 4 + 8 * (word % 2)][4 * (lane % 4) + place + 16 * (word / 2)] =
              L(*warp.registers[lane][4 + word] >> 8 * place & 0xff);
        for (int word = 0; word < 2; ++word)
          right[4 * (lane % 4) + place + 16 * word][lane / 4] = R(*warp.registers[lane][8 + word] >> 8 * place & 0xff);
      }
    for (int lane = 0; lane < 32; ++lane)
      for (int place = 0; place < 4; ++place) {
        int row = lane / 4 + 8 * (place / 2), column = 2 * (lane % 4) + place % 2;
        for (int step = 0; step < 32; ++step) *warp.registers[lane][place] += left[row][step] * right[step][column];
      }
  });
}
// cp.async: a thread's copies happen when it waits for their group, the latest time that is allowed.
struct Copy { char *into; const char *from; int bytes; };
static std::vector<std::vector<std::vector<Copy>>> groups;
static std::vector<std::vector<Copy>> open_groups;
static void copy_later(void *into, const void *from, int bytes, bool wanted) {
  if (uintptr_t(into) % bytes || (wanted && uintptr_t(from) % bytes)) {
    fprintf(stderr, "cp.async is not aligned\n"); abort();
  }
  ++copies;
  if (wanted) open_groups[current].push_back({(char *)into, (const char *)from, bytes});
  else memset(into, 0, bytes);
}
static void commit() { groups[current].push_back(open_groups[current]); open_groups[current].clear(); }
static void wait_for(size_t left) {
  auto &own = groups[current];
  while (own.size() > left) {
    for (const Copy &each : own.front()) memcpy(each.into, each.from, each.bytes);
    own.erase(own.begin());
  }
}
#define tvm_builtin_ptx_cp_async_commit_group_async_commit_group commit
static uintptr_t __cvta_generic_to_shared(const void *pointer) { return uintptr_t(pointer); }
"""

_RUN = r"""
static void (*body)();
static void start() { body(); ended[current] = true; while (true) yield(); }
static void run(dim3 grid, dim3 block, bool backwards, void (*function)()) {
  const size_t STACK = 1 << 16;
  body = function; gridDim = grid; blockDim = block;
  int number = block.x * block.y * block.z;
  std::vector<char> stacks(STACK * number);
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
  for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
  for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) {
    contexts.assign(number, {}); threads.resize(number); ended.assign(number, false);
    warps.assign((number + 31) / 32, {}); waiting = 0;
    groups.assign(number, {}); open_groups.assign(number, {});
    for (int each = 0; each < number; ++each) {
      threads[each] = {each % block.x, each / block.x % block.y, each / block.x / block.y};
      getcontext(&contexts[each]);
      contexts[each].uc_stack.ss_sp = &stacks[STACK * each];
      contexts[each].uc_stack.ss_size = STACK;
      makecontext(&contexts[each], start, 0);
    }
    for (int left = number, idle = 0; left;) {
      left = 0;
      for (int turn = 0; turn < number; ++turn) {
        current = backwards ? number - 1 - turn : turn;
        if (ended[current]) continue;
        thread = &threads[current];
        swapcontext(&scheduler, &contexts[current]);
        left += !ended[current];
      }
      if (++idle > 1000000) { fprintf(stderr, "threads wait for ever\n"); abort(); }
    }
  }
}
"""

_ASM = re.compile(r"__asm__ __volatile__\(")
_KERNEL = re.compile(r'extern "C" __global__ void __launch_bounds__\(\d+\) (\w+)\(([^)]*)\) \{')
_COPY = re.compile(r"(ptx_cp_async_legacy_(pred_)?c[ag]_(\d+)_(\d+)_(\d+))\b")
_WAIT = re.compile(r"(tvm_builtin_ptx_cp_async_wait_group_async_wait_group_(\d+))\b")
_OPERAND = re.compile(r'"=?[rfl]"\(')

FENCE = 4096
"""Bytes before and after an array, which no kernel may change; a multiple of what addresses are multiples of."""


class Emulation:
    """Kernels of one program, compiled for the CPU."""

    def __init__(self, source: str, folder: Path) -> None:
        """Compile the CUDA source of a program with ``g++``.

        Args:
            source: What TVM generated.
            folder: Folder for the C++ program and its library.

        Raises:
            ValueError: The source has an instruction that is not emulated.
            subprocess.CalledProcessError: It has a function that is not emulated.
        """
        code = _translate(source[source.index('extern "C" __global__') :])
        found = _KERNEL.findall(source)
        self.parameters = {
            name: re.findall(r"((?:signed )?\w+)\* __restrict__ (\w+?)_ptr", text) for name, text in found
        }
        entries = "".join(_entry(name, parameters) for name, parameters in self.parameters.items())
        program, library = folder / "kernels.cc", folder / "kernels.so"
        program.write_text(_PREAMBLE + _copies(source) + code + _RUN + entries)
        options = ["-std=c++20", "-O1", "-w", "-fpermissive", "-shared", "-fPIC"]
        command = ["g++", *options, str(program), "-o", str(library)]
        subprocess.run(command, check=True)
        self._library = ctypes.CDLL(str(library))

    def run(
        self,
        name: str,
        extents: Mapping[str, int],
        values: Mapping[str, Any],
        *,
        backwards: bool = False,
    ) -> None:
        """Run one kernel on arrays by the names of its parameters; it writes into them.

        Args:
            name: Name of the kernel.
            extents: Number of blocks and threads, as in ``{"blockIdx.x": 4, "threadIdx.x": 32}``.
            values: Contiguous arrays.
            backwards: True if the last thread of a block begins.
        """
        sizes = [extents.get(f"{kind}.{axis}", 1) for kind in ("blockIdx", "threadIdx") for axis in "xyz"]
        arrays = [values[each] for _, each in self.parameters[name]]
        assert all(each.flags.c_contiguous for each in arrays)
        # NaN in every type of floats, so that what is read there shows in the result.
        fenced = [np.full(each.nbytes + 2 * FENCE, 0xFF, np.uint8) for each in arrays]
        for place, each in zip(fenced, arrays, strict=True):
            place[FENCE : FENCE + each.nbytes] = each.reshape(-1).view(np.uint8)
        pointers = [ctypes.c_void_p(each.ctypes.data + FENCE) for each in fenced]
        self._library[f"run_{name}"](*sizes, int(backwards), *pointers)
        for place, each in zip(fenced, arrays, strict=True):
            each.reshape(-1).view(np.uint8)[:] = place[FENCE : FENCE + each.nbytes]
            assert (place[:FENCE] == 0xFF).all() and (place[FENCE + each.nbytes :] == 0xFF).all(), "written outside"

    def count(self, name: str) -> int:
        """Return how many conflicts of banks there were, or what warps and threads did.

        Args:
            name: ``conflicts``, ``loads`` by ldmatrix, ``multiplications``, or ``copies`` by cp.async.
        """
        return int(ctypes.c_long.in_dll(self._library, name).value)


def _entry(name: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Return a C function that runs a kernel."""
    globals_ = "".join(f"static {kind} *{name}_{own};\n" for kind, own in parameters)
    arguments = ", ".join(f"{kind} *{own}" for kind, own in parameters)
    stores = " ".join(f"{name}_{own} = {own};" for _, own in parameters)
    call = f"{name}({', '.join(f'{name}_{own}' for _, own in parameters)})"
    return (
        f"{globals_}static void call_{name}() {{ {call}; }}\n"
        f'extern "C" void run_{name}(int a, int b, int c, int d, int e, int f, int backwards, {arguments}) {{\n'
        f"  {stores}\n  run({{a, b, c}}, {{d, e, f}}, backwards, call_{name});\n}}\n"
    )


def _copies(source: str) -> str:
    """Return the functions by which the kernels of a program copy into shared memory."""
    made = ""
    for name, predicate, size, into, start in sorted(set(_COPY.findall(source))):
        last, wanted = (", int wanted", "wanted") if predicate else ("", "true")
        made += (
            f"static void {name}(void *into, int at, const void *from, int start{last}) {{\n"
            f"  copy_later((char *)into + at * {into}, (const char *)from + start * {start}, {size}, {wanted});\n}}\n"
        )
    for name, left in sorted(set(_WAIT.findall(source))):
        made += f"static void {name}() {{ wait_for({left}); }}\n"
    return made


def _translate(code: str) -> str:
    """Return C++ code with calls in place of the instructions."""
    for old, new in (("unsigned int addr =", "uintptr_t addr ="), ("__shared__ alignas(64)", "alignas(64) static")):
        code = code.replace(old, new)
    made, place = [], 0
    for match in _ASM.finditer(code):
        end = _closing(code, match.end() - 1)
        made += [code[place : match.start()], _instruction(code[match.end() : end])]
        place = end + 1
    return "".join([*made, code[place:]])


def _instruction(text: str) -> str:
    operands = [text[each.end() : _closing(text, each.end() - 1)] for each in _OPERAND.finditer(text)]
    if "ldmatrix.sync.aligned.m8n8.x4" in text:
        registers = ", ".join(f"&({each})" for each in operands[:4])
        return f"load_matrices({str('.trans' in text).lower()}, {operands[4]}, {{{registers}}})"
    found = re.search(r"mma\.sync\.aligned\.m16n8k(8|16|32)\.row\.col\.[fs]32\.(f16|bf16|tf32|[us]8\.[us]8)", text)
    if found is None:
        raise ValueError(f"not emulated: {text[:80]}")
    sums = ", ".join(f"&({each})" for each in operands[:4])
    factors = ", ".join(f"&({each})" for each in operands[4:-4])
    if found.group(1) == "32":
        kinds = ", ".join({"u8": "uint8_t", "s8": "int8_t"}[each] for each in found.group(2).split("."))
        return f"int *sums[] = {{{sums}}}; multiply_integers<{kinds}>(sums, {{{factors}}})"
    if found.group(2) == "tf32":
        return f"float *sums[] = {{{sums}}}; multiply_tf32(sums, {{{factors}}})"
    kind = {"f16": "half", "bf16": "nv_bfloat16"}[found.group(2)]
    return f"float *sums[] = {{{sums}}}; multiply<{kind}>({found.group(1)}, sums, {{{factors}}})"


def _closing(text: str, place: int) -> int:
    """Return the place of the bracket that closes the one at ``place``."""
    depth = 0
    for at in range(place, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    raise ValueError("a bracket is not closed")


def zeros_for(shape: Sequence[int], dtype: str) -> Any:
    """Return an array for a result, filled with NaN or the largest integer, so that what is not written shows."""
    if dtype == "bfloat16":
        import ml_dtypes

        return np.full(shape, np.nan, ml_dtypes.bfloat16)
    return np.full(shape, np.nan if dtype.startswith("float") else np.iinfo(dtype).max, dtype)
