"""The README and the container file of a deployment folder."""

from keyword import iskeyword

from passsearch.core import MAIN, Json, printable
from passsearch.export.record import Deployment

README, CONTAINER, REQUIREMENTS = "README.md", "Containerfile", "requirements.txt"
"""Names in a deployment folder."""

CONTAINER_PYTHON = (3, 11)
"""Python of the container, unless TVM's wheels are for another one."""


def readme(deployment: Deployment, *, files: dict[str, int], has_container: bool) -> str:
    """Return the README of a deployment folder.

    Args:
        deployment: The deployment.
        files: Size in bytes by name of each file.
        has_container: True if the folder has a container file.
    """
    inputs = "\n".join(f"| `{_cell(name)}` | {_type(kind)} |" for name, kind in deployment.inputs.items())
    passes = "\n".join(
        f"{place}. `{_cell(str(step))}`" for place, step in enumerate(deployment.pipeline.passes, start=1)
    )
    sizes = "\n".join(f"| `{name}` | {size:,} |" for name, size in sorted(files.items()))
    container = (
        f"""
## In a container

`{CONTAINER}` installs the same TVM, builds the network with all checks, and runs it on the example inputs:

    podman build --tag network . && podman run --rm network

Build it on the kind of processor that it will run on: the code is compiled for the target above.
"""
        if has_container
        else ""
    )
    warning = f"\n{_cell(deployment.warning)}\n" if deployment.warning else ""
    return f"""# {_cell(deployment.title)}

This folder builds the network with the compiler passes that {_cell(deployment.choice)}, and runs it.
{warning}
It needs an interpreter with the TVM below, numpy and a C compiler (the loader in C++: a C++ compiler). It may be copied
to another place, be read-only, and be used by another user. Change no file in it: every file is compared with its
SHA-256 before it is used, and whatever does not fit is refused in one line that says what to do.

| what | is |
|---|---|
| network | {_cell(str(deployment.model.get("source")))} |
| target | `{_cell(deployment.target)}` |
| TVM | {_cell(deployment.tvm_version)} ({deployment.dialect.name}{_commit(deployment)}) |
| build after the passes | {deployment.build.text} |
{_reference(deployment)}
Passes, in order:

{passes or "none"}

| input | shape and type |
|---|---|
{inputs}
{_entries(deployment)}
## Build and run

    python build_model.py                       # builds, checks every IR hash and the outputs, writes built/
    python run_model.py                         # runs built/ on its example inputs and compares the outputs
    python run_model.py --compile run_model     # compiles run_model.cc, the same in C++
    ./run_model

{_interpreter(deployment, has_container=has_container)}
From a read-only folder, give another place: `build_model.py --out FOLDER`, `run_model.py FOLDER`, `./run_model FOLDER`.
`built` holds machine code for the target above and runs with this TVM alone; build it where it is to run.

## In your own program

    import sys
    sys.path.insert(0, "path/of/this/folder")
    import run_model

    network = run_model.load("path/of/built")
    outputs = network({_arguments(deployment)})

Inputs are arrays of numpy, by place, by name or in one mapping; outputs are a list of arrays. Several threads may
call `network` at once; they share the weights. An array of another type or shape raises `run_model.InputError`,
whose text says what the network takes. A network for a GPU runs there. In C++, include `network.h`; `run_model.cc`
is an example, for processors only.
{container}
## Files

| file | bytes |
|---|---|
{sizes}
"""


def _interpreter(deployment: Deployment, *, has_container: bool) -> str:
    """Return what `python` is in the commands, and how to get it."""
    needed = f"`python` is an interpreter with TVM {_cell(deployment.tvm_version)} and numpy"
    if not has_container:
        return f"{needed}."
    python = ".".join(map(str, _python(deployment)))
    command = f"pip install --no-deps --require-hashes --requirement {REQUIREMENTS}"
    return f"{needed}; under Python {python} on x86-64 Linux, this installs them:\n\n    {command}\n"


def _python(deployment: Deployment) -> tuple[int, ...]:
    compiler = deployment.dialect.compiler
    return compiler.python if compiler else CONTAINER_PYTHON


def _arguments(deployment: Deployment) -> str:
    """Return the arguments of a call as an example: the inputs by name, where their names are words."""
    names = [str(name) for name in deployment.inputs]
    if deployment.calls or not all(name.isidentifier() and not iskeyword(name) for name in names):
        return "{name: array, …}"
    return ", ".join(f"{name}={name}" for name in names)


def container_file(deployment: Deployment) -> tuple[str, str] | None:
    """Return the container file and its lock file as texts.

    Return ``None`` for a GPU, and for a TVM that no package installs.
    """
    dialect = deployment.dialect
    if deployment.tvm_version != dialect.packaged_version or not deployment.target.startswith(("llvm", "c ")):
        return None
    major, minor = _python(deployment)
    names = [f"py{major}{minor}.txt", *([dialect.compiler.lock] if dialect.compiler else [])]
    locks = "".join((dialect.requirements / name).read_text() for name in names)
    return (
        f"""FROM docker.io/library/python:{major}.{minor}-slim
# Debian deletes a version of g++ when it has the next one, so it is not pinned.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY {REQUIREMENTS} /tmp/{REQUIREMENTS}
RUN pip install --no-cache-dir --no-deps --require-hashes --requirement /tmp/{REQUIREMENTS}
COPY . /network
RUN python /network/build_model.py --out /built && chmod -R a+rX /network /built
USER 65534
CMD ["python", "/network/run_model.py", "/built"]
""",
        locks,
    )


def _entries(deployment: Deployment) -> str:
    """Return what to call where the network has several entry functions; empty for one."""
    if deployment.sizes:
        return _sizes(deployment)
    rows = "\n".join(
        f"| {_cell(str(call['name']))} | `{_cell(str(call['entry']))}` | {call['weight']:.3g} |"
        for call in deployment.calls
    )
    if not rows:
        return ""
    if all(call["entry"] == MAIN for call in deployment.calls):
        return """
One function, `main`, takes all sizes. Above, an input's name begins with the size that was measured.
"""
    return f"""
The network has one function for each case, with the same weights. Above, an input's name begins with its case. Load
one by `run_model.load(folder, function=NAME)`, or `./run_model FOLDER NAME`.

| case | function | share of the calls |
|---|---|---|
{rows}
"""


def _sizes(deployment: Deployment) -> str:
    """Return what a call of each size takes."""
    rows = "\n".join(f"| {_cell(str(call['name']))} | `{_cell(str(call['entry']))}` |" for call in deployment.calls)
    return f"""
The network has one function for each size, with the same weights; an input's name above begins with its size.
`run_model.load(folder)` takes the function of a call's size. `built/sizes.json` says what other sizes take: they are
padded to the next larger one where that changes no output, or take a function of open sizes, or are refused. In C++,
name one function: `./run_model FOLDER NAME`.

| size | function |
|---|---|
{rows}
"""


def _reference(deployment: Deployment) -> str:
    """Return the row on what the outputs were compared with; empty where it is not recorded."""
    reference = deployment.reference
    if not reference:
        return ""
    unproven = f"TVM's import only, which is unproven: {reference.get('reason')}"
    return f"| outputs compared with | {_cell(str(reference.get('runtime') or unproven))} |\n"


def _commit(deployment: Deployment) -> str:
    return f", commit {_cell(deployment.tvm_commit)}" if deployment.tvm_commit else ""


def _type(kind: Json) -> str:
    """Return the type of an input, ``float32[1, 3, 224, 224]``."""
    shape, dtype = kind if isinstance(kind, list) and len(kind) == 2 else (kind, "")
    return _cell(f"{dtype}{shape}")


def _cell(text: str) -> str:
    """Return a text that stays inside its cell of a table."""
    return printable(" ".join(text.split())).replace("|", "\\|").replace("`", "'").replace("<", "&lt;")
