"""The candidates of a search: a pipeline and the options of the build that follows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from passsearch.core.passes import Json, Pipeline


@dataclass(frozen=True)
class BuildOptions:
    """Options of the compiler's own build, which runs after the pipeline.

    Attributes:
        opt_level: Level of the compiler's own pipeline; 0 leaves mandatory lowering only.
        required: Passes that the build runs at every level.
        disabled: Passes that the build never runs.
        config: Sorted ``(key, value)`` pairs of pass-context configuration.
    """

    opt_level: int = 0
    required: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    config: tuple[tuple[str, bool | int | str], ...] = ()

    @property
    def key(self) -> str:
        """The options as one word, as keys of the log name them."""
        parts = [f"O{self.opt_level}", *(f"+{name}" for name in self.required)]
        parts += [f"-{name}" for name in self.disabled] + [f"{name}={value}" for name, value in self.config]
        return ",".join(parts)

    @property
    def text(self) -> str:
        """The level and the passes that differ from it, for a reader."""
        named = (("with", self.required), ("without", self.disabled))
        return f"opt_level {self.opt_level}" + "".join(f" {word} {', '.join(names)}" for word, names in named if names)

    def to_json(self) -> dict[str, Json]:
        """Return the options as pipeline files and worker requests store them."""
        return {
            "opt_level": self.opt_level,
            "required": list(self.required),
            "disabled": list(self.disabled),
            "config": dict(self.config),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> "BuildOptions":
        """Read what ``to_json`` returns; missing keys keep their defaults."""
        # `or` instead of a default value: it covers null as well as a missing key.
        config = data.get("config") or {}
        required, disabled = data.get("required") or [], data.get("disabled") or []
        level = data.get("opt_level", 0)
        assert isinstance(config, dict) and isinstance(required, list) and isinstance(disabled, list)
        assert isinstance(level, int)
        # Sorted, so that equal options hash and compare equal.
        pairs = ((key, value) for key, value in config.items() if isinstance(value, bool | int | str))
        return cls(level, tuple(map(str, required)), tuple(map(str, disabled)), tuple(sorted(pairs)))


@dataclass(frozen=True)
class Candidate:
    """A pipeline with its build options; two candidates that reach the same IR are measured once.

    Attributes:
        pipeline: Passes that are applied explicitly, in order.
        build: Options of the build that follows.
        name: Name of a baseline or of a named sequence (``O3``, ``AS-0``), else empty.
    """

    pipeline: Pipeline = field(default_factory=Pipeline)
    build: BuildOptions = field(default_factory=BuildOptions)
    name: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any], name: str = "") -> "Candidate":
        """Read the pipeline and the build of a row of a result."""
        return cls(Pipeline.parse(data["pipeline"]), BuildOptions.from_json(data["build"]), name)

    def __str__(self) -> str:
        passes = str(self.pipeline) or "(no explicit pass)"
        return f"{passes} | opt_level={self.build.opt_level}"
