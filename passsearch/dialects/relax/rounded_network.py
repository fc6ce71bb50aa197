"""A network whose weights are arguments, so that rounded weights are tried without another build."""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm import relax

from passsearch.core import MAIN
from passsearch.dialects.contract import Array, Artifact
from passsearch.dialects.relax.executable import NETWORK, flatten
from passsearch.dialects.rounding import RoundedLayer, RoundedNetwork, Rounding
from passsearch.dialects.shared import parse_device
from passsearch.standalone.relax.cpu_schedules import numbered_calls, rounded_weights, storage_of
from passsearch.standalone.relax.deployment.separate_weights import lift_constants

LEAST_BYTES = 1 << 16
"""Size of the constants that become arguments: smaller ones are not narrowed by default."""


class WeightRounding(Rounding):
    """The weights of a module that is not scheduled yet, and the same module with arguments in their places."""

    def __init__(self, module: tvm.IRModule) -> None:
        """Lift the weights."""
        names: dict[int, str] = {}
        values: dict[str, Any] = {}
        function = lift_constants(module[MAIN], names, values, least_bytes=LEAST_BYTES)
        self.module = module.clone()
        self.module.update_func(module.get_global_var(MAIN), function)
        self._inputs = [str(each.name) for each in module[MAIN].params]
        self._values = values
        self._functions = {name.name_hint: function for name, function in module.functions_items()}
        self._calls = {
            (name, number): {
                place: constant
                for place, constant in enumerate(call.args[1].fields)
                if isinstance(constant, tvm.ir.GenericConst) and constant.__chandle__() in names
            }
            for name, number, call in numbered_calls(module)
        }
        self._names = names

    @property
    def layers(self) -> Sequence[RoundedLayer]:
        """The calls that read large constants."""
        return [
            RoundedLayer(
                *key, "+".join("x".join(str(size) for size in each.value.shape) for each in constants.values())
            )
            for key, constants in self._calls.items()
            if constants
        ]

    def rounded(self, layer: tuple[str, int], arguments: Mapping[str, Any]) -> tuple[dict[str, Array], list[str]]:
        """Return rounded weights by the name of their argument, and what the pass notes about them."""
        constants = self._calls[layer]
        values, notes = rounded_weights(self._functions[layer[0]], constants, storage_of(arguments))
        return {self._names[constants[place].__chandle__()]: array for place, array in values.items()}, notes

    def open(self, artifact: Artifact, device: str) -> "WeightedMachine":
        """Open the built module."""
        return WeightedMachine(artifact, device, self._inputs, self._values)


class WeightedMachine(RoundedNetwork):
    """A virtual machine that gets its weights with every call."""

    def __init__(self, artifact: Artifact, device: str, inputs: Sequence[str], weights: Mapping[str, Any]) -> None:
        self._device = tvm.device(*parse_device(device))
        library = tvm.runtime.load_module(str(artifact.folder / NETWORK))
        self._machine = relax.VirtualMachine(library, self._device)
        self._inputs, self._weights = inputs, weights
        self._changed: dict[str, Any] = {}

    def take(self, weights: Mapping[str, Array]) -> None:
        """Run with these weights from now on, and with the network's own in place of all others."""
        self._changed = {name: tvm.runtime.tensor(array, self._device) for name, array in weights.items()}

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Run once and return the outputs."""
        arrays = [tvm.runtime.tensor(inputs[name], self._device) for name in self._inputs]
        weights = [self._changed.get(name, value) for name, value in self._weights.items()]
        return [tensor.numpy() for tensor in flatten(self._machine[MAIN](*arrays, *weights))]

    def run_repeatedly(self, number: int) -> None:
        """Raise: it is no deployment, and is never timed."""
        raise NotImplementedError
