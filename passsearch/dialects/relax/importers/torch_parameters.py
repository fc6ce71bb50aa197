"""The tensors of a program that ``torch.export`` made."""

from typing import Any


def parameters(program: Any) -> dict[str, Any]:
    """Return the tensors that a program holds and its graph takes as inputs, by the names of these inputs."""
    signature = program.graph_signature
    targets = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    # Buffers that are not persistent are among the constants.
    tensors = {**program.state_dict, **program.constants}
    return {name: tensors[key] for name, key in targets.items()}
