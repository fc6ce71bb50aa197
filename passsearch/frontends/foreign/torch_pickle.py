"""Pickles in PyTorch's archives, read with objects that do nothing in place of the classes that they name."""

import io
import math
import pickle
import pickletools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

SAVED_ENTRIES = r"[^/]+/(data\.pkl|version|byteorder|data/\d+|\.data/\w+|\.format_version|\.storage_alignment)"
"""Names of the entries in an archive of ``torch.save``."""

MOST_CLASSES = 10_000
LARGEST_SIZE = 1 << 63

_CLASSES = re.compile(
    r"__torch__(?!\.torch\.classes\b)[\w.]* [\w.]+|__torch__\.torch\.classes\.(quantized|rnn|sparse) \w+"
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

_NUMBERED = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
"""Operations that number an object; readers have an array up to the largest number."""

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


def _skip_items(reader: Any) -> None:
    _check_keys(reader.pop_mark())


def _skip_item(reader: Any) -> None:
    _check_keys(reader.stack[-2:])
    del reader.stack[-2:]


def _check_keys(items: Sequence[Any]) -> None:
    # The hash of nested tuples takes a time that is exponential in their depth.
    if any(isinstance(key, tuple) for key in items[::2]):
        raise pickle.UnpicklingError("a key that is a tuple")


def _refuse(reader: Any) -> None:
    raise pickle.UnpicklingError("an operation that no PyTorch writes")


_OPERATIONS: dict[int, Callable[[Any], None]] = {
    pickle.SETITEMS[0]: _skip_items,
    pickle.SETITEM[0]: _skip_item,
    **{each[0]: _refuse for each in (pickle.DICT, pickle.ADDITEMS, pickle.FROZENSET, pickle.BYTEARRAY8)},
}
"""Operations on dictionaries and sets; the items of dictionaries are not kept."""


class _Reader(pickle._Unpickler):
    """A reader of pickles that finds no class and calls none.

    Attributes:
        found: What the pickle asks for and may not have, in words.
    """

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {**pickle._Unpickler.dispatch, **_OPERATIONS}

    def __init__(self, content: bytes, folder: str, sizes: Mapping[str, int]) -> None:
        super().__init__(io.BytesIO(content))
        self.found: list[str] = []
        self._folder, self._sizes = folder, sizes
        self._classes: dict[str, Any] = {}

    def find_class(self, module: str, name: str, /) -> Any:
        """Return a class that does nothing.

        Raises:
            pickle.UnpicklingError: There are too many, which would fill the memory.
        """
        label = f"{module} {name}"
        if label not in self._classes:
            if len(self._classes) >= MOST_CLASSES:
                raise pickle.UnpicklingError(f"more than {MOST_CLASSES:,} classes")
            if not _CLASSES.fullmatch(label):
                self.found.append(f"pickled Python: `{module}.{name}`")
            self._classes[label] = self._inert(name)
        return self._classes[label]

    def _inert(self, name: str) -> type[_Inert]:
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
        names = [type(each) for each in identity[:3:2]] if isinstance(identity, tuple) else []
        if names != [str, str] or len(identity) < 5 or identity[0] != "storage":
            self.found.append("a tensor without a storage")
            return 0
        kind, key, count = getattr(identity[1], "label", ""), identity[2], identity[4]
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
    if not all(isinstance(number, int) and 0 <= number < LARGEST_SIZE for number in numbers) or len(sizes) != len(
        strides
    ):
        yield "a tensor whose sizes are no numbers"
    elif math.prod(sizes) and _last(offset, sizes, strides) >= storage:
        yield "a tensor that reaches beyond its storage"


def _last(offset: int, sizes: Sequence[int], strides: Sequence[int]) -> int:
    return offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def violations_in_pickle(
    content: bytes, name: str, *, sizes: Mapping[str, int], texts: re.Pattern[str] | None = None
) -> Iterator[str]:
    """Yield what a pickle of PyTorch's asks for and may not have.

    Args:
        content: The pickle.
        name: Its name in the archive.
        sizes: Bytes of the archive's entries, by name.
        texts: Pattern of the texts that it may hold; any without one.

    Raises:
        ValueError: It is no pickle, or one that no PyTorch writes.
    """
    # Fails for lengths beyond the content, before anything is made of such a length.
    for operation, argument, _ in pickletools.genops(content):
        if operation.name in _NUMBERED and int(argument or 0) > len(content):
            raise ValueError(f"an object with the number {argument:,}")
        if texts is not None and isinstance(argument, str) and not texts.fullmatch(argument):
            yield f"the text `{argument}`, which could be Python"
    reader = _Reader(content, name.removesuffix(".pkl"), sizes)
    try:
        reader.load()
    except (pickle.UnpicklingError, EOFError, AttributeError, TypeError, IndexError, KeyError, ImportError) as error:
        raise ValueError(f"a pickle that cannot be read: {error}") from None
    yield from reader.found
