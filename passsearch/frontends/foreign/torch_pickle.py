"""Pickles in PyTorch's archives, read with objects that do nothing in place of the classes that they name."""

import io
import math
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_CLASSES = re.compile(
    r"__torch__[\w.]* [\w.]+"
    r"|torch\._utils _rebuild_(tensor|tensor_v2|qtensor|sparse_tensor|sparse_csr_tensor|parameter)"
    r"|torch\.jit\._pickle (build_\w+list|build_tensor_from_id|restore_type_tag)"
    r"|torch (\w+Storage|Size|device|\w*int\d+|\w*float\d+|bool|complex\d+|per_tensor_affine|per_channel_affine)"
    r"|torch\.storage (TypedStorage|UntypedStorage)"
    r"|collections OrderedDict|builtins (dict|list|set|complex|int|float|bool|slice)"
)
_BYTES = {
    name: size
    for size, names in (
        (1, "Byte Char Bool QInt8 QUInt8"),
        (2, "Half BFloat16 Short"),
        (4, "Float Int QInt32"),
        (8, "Double Long ComplexFloat"),
        (16, "ComplexDouble"),
    )
    for name in names.split()
}
"""Bytes of one value of a storage, by the name of its class."""

_REBUILD = re.compile(r"_rebuild_(tensor|qtensor)")


class _Inert:
    """An object in place of one that a pickle asks for."""

    label = ""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def append(self, item: Any) -> None:
        """Take no item."""

    def extend(self, items: Any) -> None:
        """Take no items."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Take no item."""


class _Reader(pickle.Unpickler):
    """A reader of pickles that finds no class and calls none.

    Attributes:
        found: What the pickle asks for and may not have, in words.
    """

    def __init__(self, content: bytes, folder: str, sizes: Mapping[str, int]) -> None:
        super().__init__(io.BytesIO(content))
        self.found: list[str] = []
        self._folder, self._sizes = folder, sizes

    def find_class(self, module: str, name: str, /) -> Any:
        """Return a class that does nothing."""
        label = f"{module} {name}"
        if not _CLASSES.fullmatch(label):
            self.found.append(f"pickled Python: `{module}.{name}`")
        found = self.found

        class Named(_Inert):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments)
                if _REBUILD.match(name):
                    found.extend(_beyond(*arguments[:4]))

        Named.label = name
        return Named

    def persistent_load(self, identity: Any, /) -> Any:
        """Return the number of values in a tensor's storage, as far as the archive has them."""
        if not (isinstance(identity, tuple) and len(identity) >= 5 and identity[0] == "storage"):
            self.found.append("a tensor without a storage")
            return 0
        kind, key, count = getattr(identity[1], "label", ""), str(identity[2]), identity[4]
        size = self._sizes.get(f"{self._folder}/{key}")
        # A storage that a code archive shares with its constants stands in their folder.
        needed = count * _BYTES.get(kind.removesuffix("Storage"), 1) if isinstance(count, int) else -1
        if size is None or not 0 <= needed <= size:
            self.found.append(f"a tensor of {needed:,} bytes in a record of {size or 0:,}")
        return count


def _beyond(storage: Any, offset: Any = 0, sizes: Any = (), strides: Any = ()) -> Iterator[str]:
    """Yield that a tensor reaches beyond its storage, or has sizes that are no numbers."""
    if isinstance(storage, _Inert) or not isinstance(storage, int):
        return
    numbers = [offset, *sizes, *strides]
    if not all(isinstance(number, int) and number >= 0 for number in numbers) or len(sizes) != len(strides):
        yield "a tensor whose sizes are no numbers"
    elif math.prod(sizes) and _last(offset, sizes, strides) >= storage:
        yield "a tensor that reaches beyond its storage"


def _last(offset: int, sizes: Sequence[int], strides: Sequence[int]) -> int:
    return offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def in_pickle(content: bytes, name: str, *, sizes: Mapping[str, int]) -> Iterator[str]:
    """Yield what a pickle of PyTorch's asks for and may not have.

    Args:
        content: The pickle.
        name: Its name in the archive.
        sizes: Bytes of the archive's entries, by name.

    Raises:
        ValueError: It is no pickle, or one that no PyTorch writes.
    """
    reader = _Reader(content, name.removesuffix(".pkl"), sizes)
    try:
        reader.load()
    except (pickle.UnpicklingError, EOFError, AttributeError, TypeError, IndexError, KeyError, ImportError) as error:
        raise ValueError(f"a pickle that cannot be read: {error}") from None
    yield from reader.found
