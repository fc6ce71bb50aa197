"""The tensors of a program that ``torch.export`` made."""

from typing import Any


def parameters(program: Any) -> dict[str, Any]:
    """Return the parameters and buffers that a program's graph takes as inputs, by the names of these inputs."""
    signature = program.graph_signature
    targets = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    return {name: program.state_dict[key] for name, key in targets.items() if key in program.state_dict}
