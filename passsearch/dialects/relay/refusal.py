"""What TVM's importers say of a network they do not take, as one line. Needs no TVM."""

import re

from passsearch.dialects.contract import ModelSource

_LISTED = re.compile(r"operators are not (?:implemented|supported[^:\n]*):\s*(.*)", re.DOTALL)
"""Followed by a list in braces, brackets or quotes, by bare names, or by lines."""

_COUNTED = re.compile(r"^(\S+): \d+$", re.MULTILINE)
"""MXNet's: an operator a line, with how often the graph has it."""

_ONE = re.compile(r"^Operator (\S+) is not (?:implemented|supported)", re.MULTILINE)


def refusal(source: ModelSource, said: str) -> str:
    """The operators the importer lacks, where that is what it says, else what it says."""
    names = missing_operators(said)
    if not names:
        last = (said.strip().splitlines() or ["it does not say why"])[-1]
        return f"Cannot import `{source.path.name}`: TVM's importer of {source.format} refuses it: {last}"
    rest = f" and {len(names) - 1} more ({', '.join(names[1:4])})" if names[1:] else ""
    another = "" if source.format == "onnx" else "export ONNX instead, "
    return (
        f"Cannot import `{source.path.name}`: TVM's importer of {source.format} has no operator `{names[0]}`{rest}; "
        f"replace it in the network, {another}or add a TVM that has it: passsearch toolchain add NAME --python PATH"
    )


def missing_operators(said: str) -> list[str]:
    """Their names, sorted as most importers give them in no order; none where the message is of something else."""
    listed = _LISTED.search(said)
    if listed is None:
        return _ONE.findall(said)
    first = listed[1].splitlines()[0]
    return sorted(set(_COUNTED.findall(listed[1]) or re.findall(r"'([^']+)'", first) or first.split(", ")))
