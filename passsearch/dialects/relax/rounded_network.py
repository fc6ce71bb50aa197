"""A network with weights and rounding of activations as arguments, so that fewer bits are tried without a build."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.target.codegen import target_has_features

from passsearch.core import MAIN
from passsearch.dialects.contract import Array, Artifact
from passsearch.dialects.relax.executable import NETWORK, flatten
from passsearch.dialects.rounding import RoundedLayer, RoundedNetwork, Rounding
from passsearch.dialects.shared import parse_device
from passsearch.standalone.relax.cpu_schedules import (
    constant_arguments,
    is_attention,
    is_call_tir,
    numbered_calls,
    rounded_weights,
    storage_of,
    with_rounded_activations,
)
from passsearch.standalone.relax.deployment.lowering import target_options
from passsearch.standalone.relax.deployment.separate_weights import lift_constants

LEAST_BYTES = 1 << 16
"""Size of the constants that become arguments: smaller ones are not narrowed by default."""


class WeightRounding(Rounding):
    """The weights of a module that is not scheduled yet, and the same module with arguments in their places."""

    def __init__(self, module: tvm.IRModule, target: str, *, has_activations: bool) -> None:
        """Lift the weights.

        Args:
            module: The module.
            target: TVM's target.
            has_activations: True to round activations too, where that is asked for.
        """
        module = _with_own_constants(module)
        names: dict[int, str] = {}
        values: dict[str, Any] = {}
        rounding, groups = with_rounded_activations(module) if has_activations else (module, {})
        function = lift_constants(rounding[MAIN], names, values, least_bytes=LEAST_BYTES)
        function, self._groups = _lift_groups(function, groups)
        values |= {name: groups[place].value for place, name in self._groups.items()}
        self.module = rounding.clone()
        self.module.update_func(rounding.get_global_var(MAIN), function)
        self._inputs = [str(each.name) for each in module[MAIN].params]
        self._values = values
        self._functions = {name.name_hint: function for name, function in module.functions_items()}
        # Those of all calls of a function are weights: elsewhere the pass leaves them as they are.
        places = {
            name: own for name, own in constant_arguments(module).items() if not is_attention(self._functions[name])
        }
        self._calls = {
            (name, number): {
                place: call.args[1].fields[place]
                for place in places.get(name, ())
                if call.args[1].fields[place].__chandle__() in names
            }
            for name, number, call in numbered_calls(module)
        }
        self._names = names
        self._has_integers = bool(target_has_features("avx2", tvm.target.Target(target_options(target))))

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

    def rounded(
        self, layer: tuple[str, int], arguments: Mapping[str, Any]
    ) -> tuple[dict[str, Array], dict[str, Array], list[str]]:
        """Return rounded weights, sizes of groups of activations, and what the pass notes about them."""
        constants = self._calls[layer]
        values, groups, notes = rounded_weights(
            self._functions[layer[0]], constants, storage_of(arguments), has_integers=self._has_integers
        )
        weights = {self._names[constants[place].__chandle__()]: array for place, array in values.items()}
        kernel, call = layer
        sizes = {self._groups[kernel, call, at]: np.full(1, size, "int32") for at, size in groups.items() if size}
        return weights, sizes, notes

    def open(self, artifact: Artifact, device: str) -> "WeightedMachine":
        """Open the built module."""
        return WeightedMachine(artifact, device, self._inputs, self._values)


def _with_own_constants(module: Any) -> Any:
    """Return the module with a constant of its own for each argument of a call, so that one is rounded alone."""
    seen: set[int] = set()

    def own(argument: Any) -> Any:
        if not isinstance(argument, tvm.ir.GenericConst):
            return argument
        is_first = argument.__chandle__() not in seen
        seen.add(argument.__chandle__())
        return argument if is_first else relax.const(argument.value)

    def with_own(call: Any) -> Any:
        if not is_call_tir(call):
            return call
        arguments = relax.Tuple([own(each) for each in call.args[1].fields])
        return relax.Call(call.op, [call.args[0], arguments, *call.args[2:]], call.attrs, call.ty_args)

    result = module.clone()
    function = tvm_ffi.structural_map(module[MAIN], (relax.Call, with_own))
    result.update_func(module.get_global_var(MAIN), function)
    return relax.transform.Normalize()(result)


def _lift_groups(function: Any, groups: Mapping[tuple[str, int, int], Any]) -> tuple[Any, dict[Any, str]]:
    """Return a function with parameters in place of the sizes of groups, and their names."""
    variables = {
        each.__chandle__(): relax.Var(f"group:{number}", each.ty) for number, each in enumerate(groups.values())
    }
    body = tvm_ffi.structural_map(
        function.body, (tvm.ir.GenericConst, lambda each: variables.get(each.__chandle__(), each))
    )
    params = [*function.params, *variables.values()]
    names = {place: str(variables[each.__chandle__()].name) for place, each in groups.items()}
    return relax.Function(params, body, function.ret_ty, function.is_pure, function.attrs), names


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
