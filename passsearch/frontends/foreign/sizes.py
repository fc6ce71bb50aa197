"""Sizes and guards in programs of ``torch.export``, which PyTorch evaluates as Python: arithmetic that stays small."""

import ast
import math
import re
from dataclasses import dataclass

LARGEST = 1 << 20
"""Largest extent of a size. That of a number or symbol is 2, that of a sum the sum, that of a product the product of
those of its parts; it bounds both the terms that sympy writes a size out to and the digits of its numbers."""

LARGEST_NUMBER = 1 << 64
LARGEST_EXPONENT = 64

_PRODUCTS, _POWERS = frozenset({"Mul", "Mult", "Div"}), frozenset({"Pow", "PowByNatural", "FloatPow"})
_SHIFTS = frozenset({"LShift", "RShift"})
_NUMBERS = frozenset({"Integer", "Rational"})
_OTHERS = frozenset(
    {"Abs", "And", "CeilDiv", "CeilToInt", "CleanDiv", "Eq", "Equality", "FloatTrueDiv", "FloorDiv", "FloorToInt"}
    | {"Ge", "GreaterThan", "Gt", "Identity", "IntTrueDiv", "IsNonOverlappingAndDenseIndicator", "Le", "LessThan", "Lt"}
    | {"Max", "Min", "Mod", "ModularIndexing", "Ne", "Not", "Or", "PythonMod", "RoundDecimal", "RoundToInt"}
    | {"StrictGreaterThan", "StrictLessThan", "ToFloat", "TruncToFloat", "TruncToInt", "Unequality", "Where"}
)
_FUNCTIONS = _NUMBERS | _OTHERS | {"Add", "Sub"}
"""Names of Python's operators, and of functions of sympy and ``torch.utils._sympy`` in sizes that PyTorch writes."""

_MEASURES = frozenset({"size", "stride", "storage_offset", "dim", "numel"})
_MODULES = re.compile(r"math\.(trunc|floor|ceil|sqrt|fabs|inf|nan|isnan)|torch\.sym_[a-z]+")
_NAME = re.compile(r"(?!__)[^\W\d]\w*")
_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,20})?(e[+-]?\d{1,3})?")
_KEY = re.compile(r"[\w. -]*")


def is_size(text: str) -> bool:
    """Return whether a text is arithmetic on numbers and symbols by functions that PyTorch writes."""
    return _Arithmetic(is_guard=False).is_small_arithmetic(text)


def is_guard(text: str) -> bool:
    """Return whether a text compares sizes of inputs, as ``L['x'].size()[0] % 2 == 0`` does."""
    return _Arithmetic(is_guard=True).is_small_arithmetic(text)


@dataclass(frozen=True)
class _Arithmetic:
    """What an expression may consist of.

    Attributes:
        is_guard: True for Python on the network's inputs; false for text that sympy reads.
    """

    is_guard: bool

    def is_small_arithmetic(self, text: str) -> bool:
        """Return whether a text is arithmetic whose extent is small."""
        # sympy removes line breaks before it reads a text.
        if "\n" in text or "#" in text:
            return False
        try:
            return self._extent(ast.parse(text, mode="eval").body) <= LARGEST
        except (SyntaxError, ValueError, MemoryError):
            return False

    def _extent(self, node: ast.expr) -> int:
        """Return the extent of an expression, at most one more than the largest.

        Raises:
            ValueError: It is no arithmetic.
        """
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Invert):
            return self._extent(node.operand)
        if isinstance(node, ast.BoolOp):
            return self._sum(node.values)
        if isinstance(node, ast.Compare):
            return self._sum([node.left, *node.comparators])
        if isinstance(node, ast.BinOp):
            return self._joined(type(node.op).__name__, [node.left, node.right])
        if isinstance(node, ast.Call):
            return self._call(node)
        if self.is_guard and isinstance(node, ast.Subscript) and _is_key(node.slice):
            return self._extent(node.value)
        if not (_is_leaf(node) or (self.is_guard and _MODULES.fullmatch(ast.unparse(node)))):
            raise ValueError("no arithmetic")
        return 2

    def _call(self, node: ast.Call) -> int:
        name = ast.unparse(node.func)
        if not self.is_guard and name in ("Symbol", "Float"):
            return _written(name, node)
        if node.keywords:
            raise ValueError("an argument by name")
        if self.is_guard and isinstance(node.func, ast.Attribute) and node.func.attr in _MEASURES and not node.args:
            return self._extent(node.func.value)
        if self.is_guard and _MODULES.fullmatch(name):
            return self._sum(node.args)
        return self._joined(name, node.args)

    def _joined(self, name: str, parts: list[ast.expr]) -> int:
        """Return the extent of what an operator or function makes of its arguments."""
        if name in _POWERS | _SHIFTS:
            base, exponent = parts
            size, times = self._extent(base), _exponent(exponent)
            return min(size**times if name in _POWERS else size << times, LARGEST + 1)
        if name in _PRODUCTS:
            return min(math.prod(map(self._extent, parts)), LARGEST + 1)
        if name not in _FUNCTIONS:
            raise ValueError("no function of sizes")
        return self._sum(parts)

    def _sum(self, parts: list[ast.expr]) -> int:
        return min(sum(map(self._extent, parts)), LARGEST + 1)


def _exponent(node: ast.expr) -> int:
    """Return the absolute value of a number such as ``2``, ``Integer(-2)`` or ``Rational(1, 2)``, which is at least 1.

    Raises:
        ValueError: It is no number, or a large one.
    """
    if isinstance(node, ast.Call) and ast.unparse(node.func) in _NUMBERS and node.args:
        node = node.args[0]
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    value = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(value, int) or value > LARGEST_EXPONENT:
        raise ValueError("an exponent that is no small number")
    return max(value, 1)


def _written(name: str, node: ast.Call) -> int:
    """Return the extent of a symbol or number in quotes, such as ``Symbol('s0', integer=True)``.

    Raises:
        ValueError: It is something else.
    """
    texts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    allowed = _NAME if name == "Symbol" else _NUMBER
    if len(node.args) != 1 or not texts or not isinstance(texts[0], str) or not allowed.fullmatch(texts[0]):
        raise ValueError("neither a symbol nor a number")
    for keyword in node.keywords:
        value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        if not isinstance(value, bool) and (keyword.arg, value) != ("precision", 53):
            raise ValueError("an unknown property")
    return 2


def _is_leaf(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and abs(node.value) <= LARGEST_NUMBER
    return isinstance(node, ast.Name) and _NAME.fullmatch(node.id) is not None


def _is_key(node: ast.expr) -> bool:
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, int) or (isinstance(value, str) and _KEY.fullmatch(value) is not None)
