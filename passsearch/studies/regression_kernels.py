"""Kernels of two engines, matched by what they compute."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum
from types import MappingProxyType
from typing import TypeAlias

from passsearch.engines import KernelCall
from passsearch.results import KernelDifference, MatchedBy

Key: TypeAlias = tuple[str, ...]
Calls: TypeAlias = Sequence[KernelCall]

_PREFIX = re.compile(r"^(fused_|tvmgen_default_|nn_|contrib_)+")
_FUSED = re.compile(r"^Fused(?=[A-Z])")

_SAME: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "conv": ("conv1d", "conv2d", "conv3d", "convolution", "groupconvolution"),
        "matmul": ("gemm", "dense", "fullyconnected", "batch_matmul", "linear", "mm", "bmm", "addmm"),
        "pool": ("max_pool2d", "avg_pool2d", "maxpool", "averagepool", "avgpool", "pooling"),
        "layer_norm": ("layernorm", "layernormalization", "mvn"),
        "batch_norm": ("batchnorm", "batchnormalization", "batchnorminference"),
    }
)
"""Names of one operator, in small letters: engines call it otherwise, and are compared by the first name."""

_ALIASES = {other: name for name, others in _SAME.items() for other in others}

_WORDS = re.compile(r"(?:batch|layer|group|instance)_(?:matmul|norm)(?=_|$)|(?:[a-z]+_)?pool\d+d|[a-z]+\d+d|[^_]+")

_CORE = re.compile(r"(?:^|_)((?:batch_)?matmul|conv\d+d|dense)(?=_|$)")


def _exact(call: KernelCall) -> Key:
    return call.operator or call.name, call.shape


def first_operator(call: KernelCall) -> str:
    """Return the operator that a fused kernel is for: ``conv2d`` of ``fused_conv2d_add_relu`` and ``add_conv2d``.

    It is a convolution or product of matrices that the kernel has anywhere, else its first operator.
    """
    name = _FUSED.sub("", _PREFIX.sub("", call.operator or call.name))
    found = _CORE.search(name)
    match = _WORDS.match(name)
    return found[1] if found else match[0] if match else name


def _common_name(call: KernelCall) -> str:
    name = first_operator(call)
    return _ALIASES.get(name.lower(), name.lower())


def _first(call: KernelCall) -> Key:
    return _common_name(call), call.shape.partition(" ")[0]


def _loose(call: KernelCall) -> Key:
    return (_common_name(call),)


_LEVELS: tuple[tuple[MatchedBy, Callable[[KernelCall], Key]], ...] = (
    ("operator and shape", _exact),
    ("first operator and input", _first),
    ("first operator", _loose),
)


def kernel_differences(before: Calls, after: Calls, *, whole_s: float) -> tuple[KernelDifference, ...]:
    """Return the kernels of two inferences side by side, the largest loss first.

    Kernels belong together if operator and shapes are equal; of the others, those with the same first operator on the
    same input, since versions and pipelines fuse differently; of the rest, those with the same first operator. The
    operator is then called as in the second inference.

    Args:
        before: Calls of the first inference.
        after: Calls of the second.
        whole_s: Seconds that the second inference takes longer.
    """
    rows: list[KernelDifference] = []
    left: Calls = before
    right: Calls = after
    for name, key in _LEVELS:
        groups, others = _grouped(left, key), _grouped(right, key)
        common = [each for each in groups if each in others]
        rows += [_row(groups[each], others[each], each, matched_by=name, whole_s=whole_s) for each in common]
        left, right = ([call for call in calls if key(call) not in common] for calls in (left, right))
    rows += [_row(calls, [], key, matched_by=None, whole_s=whole_s) for key, calls in _grouped(left, _exact).items()]
    rows += [_row([], calls, key, matched_by=None, whole_s=whole_s) for key, calls in _grouped(right, _exact).items()]
    return tuple(sorted(rows, key=lambda row: -row.difference_s))


def _grouped(calls: Calls, key: Callable[[KernelCall], Key]) -> Mapping[Key, list[KernelCall]]:
    groups: dict[Key, list[KernelCall]] = {}
    for call in calls:
        groups.setdefault(key(call), []).append(call)
    return groups


def _row(before: Calls, after: Calls, key: Key, *, matched_by: MatchedBy | None, whole_s: float) -> KernelDifference:
    before_s, after_s = (fsum(call.seconds for call in calls) for calls in (before, after))
    is_exact = matched_by in (None, "operator and shape")
    return KernelDifference(
        operator=key[0] if is_exact else first_operator(after[0]),
        shape=key[1] or None if len(key) > 1 else None,
        matched_by=matched_by,
        kernels_before=_names(before),
        kernels_after=_names(after),
        calls_before=len(before),
        calls_after=len(after),
        before_s=before_s if before else None,
        after_s=after_s if after else None,
        difference_s=after_s - before_s,
        share=(after_s - before_s) / whole_s if whole_s > 0 else None,
    )


def _names(calls: Iterable[KernelCall]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(call.name for call in calls))
