"""Exported programs in which every value is an output, to find the node from which on two runtimes differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from passsearch.core.torch_program import register_operators
from passsearch.dialects.contract import SourceNetwork
from passsearch.frontends.model_file import ModelFile, digest_files
from passsearch.frontends.onnx_values import NodeValue


def with_all_program_values(file: ModelFile, folder: Path) -> tuple[ModelFile, tuple[NodeValue, ...]]:
    """Return a copy of a file of ``torch.export`` with the values of all nodes as outputs, and these values in order.

    Args:
        file: The file; its program takes tensors by position.
        folder: Folder of the copy.
    """
    # Imported here: few of the users of this module have PyTorch.
    import torch
    from torch.utils._pytree import tree_flatten

    from passsearch.frontends.source_runtimes.torch_runtime import AllValues, TorchModule
    from passsearch.frontends.torch_call import program_call

    register_operators(file.path)
    every = AllValues(torch.export.load(file.path).module())
    tensors = {name: torch.zeros(kind.shape, dtype=getattr(torch, kind.dtype)) for name, kind in file.inputs.items()}
    path = folder / "all-values.pt2"
    torch.export.save(torch.export.export(every, tuple(tensors.values()), strict=False), path)
    call = program_call(tree_flatten((tuple(tensors), {}))[1], list(tensors.items()))

    def live() -> SourceNetwork:
        return TorchModule(every, call, running=torch.no_grad)

    copy = replace(file, path=path, sha256=digest_files([path]), otherwise=None, live=live)
    return copy, tuple(_value(place, node) for place, node in every.places(*tensors.values()))


def _value(place: int, node: Any) -> NodeValue:
    inputs = tuple(each.name for each in node.all_input_nodes)
    return NodeValue(place, node.name, f"`{node.name}` ({node.target})", inputs)
