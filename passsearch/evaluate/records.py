"""Typed records of the network and of its builds, each read from its fact in one place."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from passsearch.core import (
    BuildOptions,
    Case,
    CheckInputs,
    InputRange,
    Json,
    ModuleSummary,
    TensorType,
    leading_batch,
    read_ranges,
)
from passsearch.evaluate.verify import Agreement, VerifyFact
from passsearch.store import Fact

RECALLED = "earlier"
"""Key of facts in a run's log that an earlier run recorded. Their times are those of another load of the machine."""

BUSY = "busy"
"""Key of facts that were timed while others used the machine; no later run gets them."""


@dataclass(frozen=True)
class Network:
    """The imported network.

    Attributes:
        root: The state of the IR that no pass has changed.
        inputs: Types by input name, in order.
        summary: The dataflow graph, of the first case where there are several.
        ranges: Ranges of the values of inputs, by name; see ``CheckInputs``.
        samples: File with the user's samples; empty without one.
        sample_count: Number of samples in it.
        labels: File with the labels of these; empty without one.
        cases: The cases that are weighed, where there are several; ``inputs`` has the inputs of all.
        other_functions: Functions of the model file that are not tuned.
    """

    root: str
    inputs: Mapping[str, TensorType]
    summary: ModuleSummary
    cases: tuple[Case, ...] = ()
    other_functions: tuple[str, ...] = ()
    ranges: Mapping[str, InputRange] = field(default_factory=dict)
    samples: str = ""
    sample_count: int = 0
    labels: str = ""

    @classmethod
    def from_fact(cls, fact: Fact) -> "Network":
        """Read the answer to ``load``."""
        inputs = {name: TensorType(tuple(shape), dtype) for name, (shape, dtype) in fact["inputs"].items()}
        cases, others = map(Case.from_json, fact.get("cases", ())), fact.get("other_functions", ())
        summary, ranges = ModuleSummary.from_json(fact["summary"]), read_ranges(fact.get("ranges", {}))
        return cls(fact["state"], inputs, summary, tuple(cases), tuple(others), ranges)

    @property
    def check(self) -> CheckInputs:
        """All that decides the inputs on which the network is checked and timed."""
        return CheckInputs(self.inputs, self.ranges, self.samples, self.sample_count, self.labels)

    def with_check(self, check: CheckInputs) -> "Network":
        """Return the network with other inputs of the check; their types are its own."""
        count, labels = check.sample_count, check.labels
        return replace(self, ranges=check.ranges, samples=check.samples, sample_count=count, labels=labels)

    @property
    def batch(self) -> int:
        """Samples of an inference (``leading_batch``); 1 where cases differ in it."""
        sizes = {leading_batch(inputs) for inputs in ([case.inputs for case in self.cases] or [self.inputs])}
        return sizes.pop() if len(sizes) == 1 else 1

    def request(self) -> dict[str, Json]:
        """Return what requests that run the network say about its inputs."""
        # Not `cases`, which in a request are the inputs on which outputs are compared.
        calls: dict[str, Json] = {"calls": [case.to_json() for case in self.cases]} if self.cases else {}
        return {"inputs": self.check.to_json(), **calls}

    def inputs_to_json(self) -> dict[str, Json]:
        """Return the input types in the form of worker requests."""
        return {name: [list(kind.shape), kind.dtype] for name, kind in self.inputs.items()}


@dataclass(frozen=True)
class BuildFact:
    """One build.

    Attributes:
        digest: Digest of the binary.
        kernels: Digest of the lowered functions and of the order of their calls; the binary's where there is none.
        seconds: Time to build and to write the files. LLVM generates code while the files are written.
        bytes: Size of the files.
        plan_bytes: Memory the compiler planned; ``None`` where it planned none.
        verification: Comparison of its outputs with the reference; ``None`` where nothing runs.
        run_s: Seconds of the fastest inference of those whose outputs were compared; ``None`` where nothing ran, or in
            logs from before it was recorded.
        launches: Kernels that one inference starts on a GPU; ``None`` on a CPU, or in logs from before it was recorded.
    """

    digest: str
    kernels: str
    seconds: float
    bytes: int
    plan_bytes: int | None
    verification: VerifyFact | None
    run_s: float | None
    launches: int | None = None

    @classmethod
    def from_fact(cls, fact: Fact) -> "BuildFact":
        """Read the answers to ``build`` and ``verify``, which are recorded as one fact."""
        return cls(
            digest=fact["digest"],
            # An artifact without lowered functions is equal to another one only if the whole binary is.
            kernels=fact["kernels"] or fact["digest"],
            seconds=fact["seconds"],
            bytes=fact["bytes"],
            plan_bytes=fact["plan_bytes"],
            verification=VerifyFact.from_fact(fact) if fact.get("deviation") is not None else None,
            run_s=fact.get("run_s"),
            launches=fact.get("launches"),
        )


@dataclass(frozen=True)
class Built:
    """A state built with options, judged for one candidate.

    Artifacts with the same ``digest`` are one binary. Artifacts with the same ``kernels`` call the same code in the
    same order, on parameters that may have other values; they take the same time.

    Attributes:
        state: The state that was built.
        options: Options of the build.
        key: Names state and options.
        folder: Folder of the artifact.
        digest: Digest of the binary.
        kernels: Digest of the lowered functions and of the order of their calls.
        seconds: Time to build and to write the files.
        bytes: Size of the files.
        plan_bytes: Memory the compiler planned.
        peak_rss: Memory the artifact adds to a process that runs it, in bytes.
        agreement: Agreement of its outputs with the reference.
        run_s: Seconds of its fastest inference of those whose outputs were compared; ``None`` where it is unknown.
        device_bytes: Memory of a GPU that the artifact takes: weights, code, activations and workspace.
        launches: Kernels that one inference starts on a GPU.
    """

    state: str
    options: BuildOptions
    key: str
    folder: Path
    digest: str
    kernels: str
    seconds: float
    bytes: int
    plan_bytes: int | None
    peak_rss: int | None
    agreement: Agreement = field(default_factory=Agreement)
    run_s: float | None = None
    device_bytes: int | None = None
    launches: int | None = None

    @classmethod
    def of(
        cls, record: BuildFact, agreement: Agreement, *, state: str, options: BuildOptions, key: str, folder: Path
    ) -> "Built":
        """Return a build as it was judged for a candidate."""
        verified = record.verification
        return cls(
            state=state,
            options=options,
            key=key,
            folder=folder,
            digest=record.digest,
            kernels=record.kernels,
            seconds=record.seconds,
            bytes=record.bytes,
            plan_bytes=record.plan_bytes,
            peak_rss=verified.peak_rss if verified else None,
            agreement=agreement,
            run_s=record.run_s,
            device_bytes=verified.device_bytes if verified else None,
            launches=record.launches,
        )


@dataclass(frozen=True)
class FreshCompile:
    """One compile in a process of its own, as a deployment compiles.

    Attributes:
        folder: Folder of the artifact.
        digest: Digest of the binary.
        apply_s: Time to apply the pipeline.
        build_s: Time to build and to write the files.
        wall_s: Wall time of the process.
        parts_s: Seconds by ``COMPILE_PARTS``; empty in logs from before they were recorded.
    """

    folder: Path
    digest: str
    apply_s: float
    build_s: float
    wall_s: float
    parts_s: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_fact(cls, fact: Fact) -> "FreshCompile":
        """Read a fact of kind ``fresh``."""
        seconds = (fact["apply_s"], fact["seconds"], fact["wall_s"])
        return cls(Path(fact["folder"]), fact["digest"], *seconds, fact.get("parts_s", {}))

    @property
    def compile_s(self) -> float:
        """Time to apply and to build."""
        return self.apply_s + self.build_s
