"""What a dialect offers to try the weights of a network in fewer bits without another build."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from passsearch.dialects.contract import Array, Artifact, Executable, Module


@dataclass(frozen=True)
class RoundedLayer:
    """A call of a kernel that reads weights.

    Attributes:
        kernel: Name of the kernel.
        call: Number of the call among those of the kernel.
        weights: Shapes of the weights, as text.
    """

    kernel: str
    call: int
    weights: str


class RoundedNetwork(Executable, Protocol):
    """A network that gets its weights as arguments."""

    def take(self, weights: Mapping[str, Array]) -> None:
        """Run with these weights from now on, and with the network's own in place of all others."""


class Rounding(Protocol):
    """The weights of a module whose kernels are not scheduled yet.

    Attributes:
        module: The module with arguments in place of the weights.
    """

    module: Module

    @property
    def layers(self) -> Sequence[RoundedLayer]:
        """The calls of kernels that read weights, in order."""

    def rounded(
        self, layer: tuple[str, int], arguments: Mapping[str, Any]
    ) -> tuple[dict[str, Array], dict[str, Array], list[str]]:
        """Return the weights of a call as a pass with these arguments would round them, and its notes on them.

        Between them are the arguments by which the network rounds what these weights are multiplied with.

        Args:
            layer: Name of the kernel and number of the call.
            arguments: Arguments of the pass that narrows weights.
        """

    def open(self, artifact: Artifact, device: str) -> RoundedNetwork:
        """Open the built module."""
