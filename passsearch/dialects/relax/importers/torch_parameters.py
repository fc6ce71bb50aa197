"""The tensors of a program that ``torch.export`` made."""

from typing import Any


def parameters(program: Any) -> dict[str, Any]:
    """Return the parameters, buffers and constants that a program's graph takes as inputs, by the inputs' names."""
    signature = program.graph_signature
    targets = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    # Buffers that a module does not save are among the constants.
    held = {**program.constants, **program.state_dict}
    return {name: held[key] for name, key in targets.items() if key in held}
