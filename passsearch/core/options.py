"""The options that functions of the API and commands share: each is stated once, with its default, text and check."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

from passsearch.core.budget import PRECISIONS, Budget
from passsearch.core.inputs import InputTypes
from passsearch.core.measurement import DEADLINE_S
from passsearch.core.rules import ArgumentRule, Choice, FilePath, Kind, Names, Number, Numbers

SOURCE, IMPORT = REFERENCES = ("source", "import")
"""What outputs are compared with: those of the network's own framework, or of the import built without passes."""

R = TypeVar("R", bound="_Options")

FLAG = Kind((bool,), "True or False", "True")
"""Rule of an option that is on or off."""

_TEXT = (str,)


@dataclass(frozen=True)
class Option:
    """The statement of one option.

    Attributes:
        text: What it is, in the words of ``--help``; backticks stand around code.
        rule: The values it may have; ``None`` where a reader of its own checks them.
        metavar: What stands for the value in ``--help``.
        more: Further sentences of the API's docstrings.
        default: Its value where it is left out, from the record that it is a field of.
    """

    text: str
    rule: ArgumentRule | None = None
    metavar: str = ""
    more: str = ""
    default: object = None

    @property
    def is_flag(self) -> bool:
        """True if it is on or off."""
        return self.rule is FLAG

    @property
    def description(self) -> str:
        """What a docstring says of it, in reStructuredText."""
        text = f"True to {self.text[0].lower()}{self.text[1:]}" if self.is_flag else self.text
        return f"{text} {self.more}".rstrip().replace("`", "``")


class _Options:
    """A record whose fields are options."""

    @classmethod
    def of(cls: type[R], arguments: Mapping[str, Any]) -> R:
        """Return the options among the arguments of a function; those that it does not take have their defaults."""
        return cls(**{name: arguments[name] for name in get_type_hints(cls) if name in arguments})


@dataclass(frozen=True, kw_only=True)
class NetworkOptions(_Options):
    """How a network is read, what it is compiled by and for, and how its outputs are judged."""

    inputs: Annotated[
        InputTypes | None,
        Option(
            "Types and shapes of inputs that the file leaves open.",
            metavar="name:dtype[shape]",
            more='A text `"ids:int64[1,128]"`, a list of such texts, or a mapping from the name to `"int64[1,128]"`, '
            "to a pair `(shape, dtype)`, or to a tensor or array of that type.",
        ),
    ] = None
    batch: Annotated[
        int | None,
        Option("Size of the first dimension, if the file leaves it open.", Number(1, 1), metavar="N"),
    ] = None
    function: Annotated[
        str | None,
        Option(
            "Function of a compiler module in place of `main`, or several with the shares of their calls: "
            "`prefill:0.1,decode:0.9`.",
            Kind(_TEXT, "the name of a function, or names with weights", '"prefill:0.1,decode:0.9"'),
            metavar="NAME",
            more="See docs/guide/several_sizes.md.",
        ),
    ] = None
    sizes: Annotated[
        str | Sequence[str] | None,
        Option(
            "Sizes of open inputs with the shares of their calls: `ids=1x128:0.3,1x1024:0.7`.",
            Kind((str, list, tuple), "sizes of an input with weights, as text", '"ids=1x128:0.3,1x1024:0.7"', str),
            metavar="INPUT=SIZE:WEIGHT,…",
            more="A list of such texts for several inputs.",
        ),
    ] = None
    keep_symbolic: Annotated[
        bool, Option("Compile one function whose sizes stay open, and measure it at those of `sizes`.", FLAG)
    ] = False
    samples: Annotated[
        str | Path | None,
        Option(
            "NumPy file (.npz) with an array for each input, or several in a leading dimension: outputs are checked on "
            "all, and the first is timed.",
            FilePath("a NumPy file with an array for each input", '"samples.npz"'),
            metavar="FILE",
            more="Each array has the name, the shape and the dtype of its input, with one more leading dimension for "
            "several samples. Without it, inputs are random, of values that make sense; see docs/guide/samples.md.",
        ),
    ] = None
    target: Annotated[
        str | None,
        Option(
            "TVM's target; this machine's CPU by default.",
            Kind(_TEXT, "a target as text", '"llvm"'),
            metavar="TARGET",
        ),
    ] = None
    toolchain: Annotated[
        str | None,
        Option(
            "Toolchain, as in `passsearch toolchain list`; by default that of the run or model, else the first there.",
            Kind(_TEXT, "the name of a toolchain, as in `passsearch toolchain list`", '"this"'),
            metavar="NAME",
        ),
    ] = None
    tolerance: Annotated[
        float | None,
        Option(
            "Allowed deviation of outputs, as a share of the largest value, for pipelines with a pass that may change "
            "numerics; by default as strict as for all other pipelines.",
            Number(0, 0.001, whole=False),
            metavar="SHARE",
        ),
    ] = None
    reference: Annotated[
        str,
        Option(
            "What outputs are compared with: what the network's own framework computes, or the import as it is.",
            Choice(REFERENCES),
            metavar="source|import",
            more="`source` refuses an import that disagrees. `import` is for a network whose import is known to "
            "differ; the result and its export say so.",
        ),
    ] = SOURCE
    catalogs: Annotated[
        Sequence[str | Path],
        Option(
            "YAML files with your own passes.",
            Names('["own_passes.yaml"]', (str, Path)),
            metavar="FILE",
        ),
    ] = ()
    trust: Annotated[bool, Option("Run code that comes with a file or a run; what it runs is printed first.", FLAG)] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class Limits(_Options):
    """What one call and each of its compiler processes may use, in the units of users.

    Without ``timeout`` there is no limit of time; without ``memory`` the limit is a share of the machine's.
    """

    deadline: Annotated[
        float,
        Option(
            "Time limit for one compile or one measurement.",
            Number(1, 600, whole=False),
            metavar="SECONDS",
            more="It is in seconds, and the process group is killed after it. In a search with a time limit, a pass "
            "may take a quarter of that, and so may a build, or five times as long as the slowest one so far and half "
            "of the limit at most. If a quarter is less than 20 s, it is 20 s.",
        ),
    ] = DEADLINE_S
    memory: Annotated[
        float | None,
        Option(
            "Memory of one compiler process; by default 3/4 of the machine's.",
            Number(0.5, 16, whole=False),
            metavar="GB",
            more="It is in gigabytes, and each of its forks may use as much. A candidate that needs more fails with "
            "kind `oom`.",
        ),
    ] = None
    timeout: Annotated[
        float | None,
        Option(
            "Time limit; the same call again continues.",
            Number(0, 600, whole=False),
            metavar="SECONDS",
            more="It is in seconds.",
        ),
    ] = None


def _statements(record: type) -> Iterator[tuple[str, Option]]:
    for name, hint in get_type_hints(record, include_extras=True).items():
        yield name, replace(hint.__metadata__[0], default=getattr(record, name))


OPTIONS: Mapping[str, Option] = {
    # Objects of Python, which no command has.
    "example_inputs": Option("Inputs a torch module or a gluon block is traced with."),
    "plans": Option("Plans by which artifacts are timed; the defaults are those of docs/evidence/measurement.md."),
    **dict(_statements(NetworkOptions)),
    **dict(_statements(Limits)),
}
"""The statement of each option by name."""

NUMBERS: Mapping[str, Number] = {
    **{name: option.rule for name, option in OPTIONS.items() if isinstance(option.rule, Number)},
    "trials": Number(0, 60),
    "seed": Number(0, 0, most=2**32 - 1),
    "confirm": Number(0, 3),
    "keep_throughput": Number(0, 0.98, most=1, whole=False),
    "least_gain": Number(0, 0.02, most=1, whole=False),
    "rounds": Number(2, 6),
    "processes": Number(1, 3),
    "threads": Number(1, 2),
    "depth": Number(1, 4),
    "states": Number(1, 1000),
    "sample": Number(1, 50),
    "ratio": Number(1, 1.5, whole=False),
    "threshold": Number(0, 0.02, most=1, whole=False),
    "seconds": Number(0, 60, whole=False),
}
"""Rules of numeric arguments, which the command line's options of the same names share."""

RULES: Mapping[str, ArgumentRule] = {
    **{name: option.rule for name, option in OPTIONS.items() if option.rule is not None},
    **NUMBERS,
    "passes": Names('["FoldConstant", "FuseOps"]'),
    "additional": Names('["FoldConstant", "FuseOps"]'),
    "print_ir": Names('["FuseOps"]'),
    "rivals": Names('["onnxruntime"]'),
    "pipeline": Kind(_TEXT, "a pipeline as text, or its name", '"FoldConstant,FuseOps"'),
    "engines": Names('["relay:O3", "onnxruntime"]'),
    "batches": Numbers(NUMBERS["batch"], "[1, 2, 4, 8]"),
    "requests": Numbers(NUMBERS["batch"], "[1, 2, 4]"),
    "own_threads": FLAG,
    "kernels": FLAG,
    "labels": FilePath("a NumPy file with labels", '"digits.npz"'),
    "baseline": Kind(_TEXT, "the name of one of the engines", '"onnxruntime"'),
    "engines_python": FilePath("a Python interpreter", '"venv/bin/python"'),
    "against": Kind(_TEXT, "a pipeline, or onnxruntime", '"onnxruntime"'),
    "before": Kind(_TEXT, "an engine, a toolchain, a run or an export", '"onnxruntime==1.24.1"'),
    "after": Kind(_TEXT, "an engine, a toolchain, a run or an export", '"onnxruntime"'),
    "pipelines": Names('["O2", "O3"]'),
    "objective": Kind((str, list, tuple), "a name or a list of two names", '"throughput"', str),
    "precision": Choice(PRECISIONS),
    "budget": Budget(),
    "sampler": Kind(_TEXT, "the name of a strategy", '"auto"'),
    "protocol": Kind(_TEXT, "the name of a protocol", '"paired"'),
    "cache": Kind(_TEXT, "the state of the caches", '"warm"'),
    "run": FilePath("a run folder", '"runs/resnet"'),
    "to": FilePath("a folder", '"deploy"'),
    "out": FilePath("a run folder", '"runs/resnet"'),
    "folder": FilePath("a folder", '"evaluation"'),
    "remember": FLAG,
    "every": FLAG,
    # `Callable` is a class at run time, which mypy does not know.
    "progress": Kind((bool, Callable), "True, False or a function of (text, done, total)", "True"),  # type: ignore[arg-type]
}
"""Rules by the name of the argument; one name has one rule in all functions of the API."""
