"""What of a jobs file can be known to be wrong before a network is imported."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from passsearch.batch.job import TuneJob
from passsearch.catalog import find_entry, load, require_searchable
from passsearch.core import first_sentence
from passsearch.dialects import DIALECTS
from passsearch.errors import EnvironmentFault, UserError
from passsearch.frontends.zoo import describe
from passsearch.toolchain import TARGET_KINDS, Toolchain, get_toolchain, target_kind
from passsearch.worker import machine_memory_bytes


def find_mistakes(jobs: Sequence[TuneJob], *, is_local: bool) -> list[str]:
    """Return in one line each what would end the jobs, each mistake once; a cluster's toolchains are not known here.

    Args:
        jobs: The jobs of a file.
        is_local: True if they run on this machine.
    """
    found: dict[str, None] = {}
    for check in _checks(jobs, is_local=is_local):
        try:
            check()
        except UserError as error:  # noqa: PERF203 -- each check has one of its own
            found[" ".join(str(error).split())] = None
        except EnvironmentFault:  # of this machine and not of the file; submitting says so
            continue
    return list(found)


def _checks(jobs: Sequence[TuneJob], *, is_local: bool) -> Iterator[Callable[[], object]]:
    if not jobs:
        return
    options = jobs[0].options  # those of all jobs of a file
    here = [job for job in jobs if is_local and not job.device.container and not job.device.setup]
    yield from (partial(_check_network, text) for text in _once(job.network.text for job in jobs))
    yield from (partial(get_toolchain, name) for name in _once(job.toolchain for job in here))
    yield from (partial(_check_target, target) for target in _once(job.target for job in jobs))
    if "sampler" in options:
        yield from (partial(_check_sampler, options["sampler"], each) for each in _once(job.objective for job in jobs))
    if is_local and "memory" in options:
        yield partial(_check_memory, options["memory"])
    catalogs = [Path(path) for path in options.get("catalogs", ())]
    names = [*(options.get("passes") or ()), *options.get("additional", ())]
    if catalogs:
        yield partial(load, next(iter(DIALECTS)), *catalogs)
    if names:
        toolchains = _toolchains(here)
        yield from (partial(_check_pass, name, toolchains, catalogs) for name in names)


def _once(names: Iterable[str | None]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name is not None]


def _check_network(text: str) -> None:
    if not text.startswith("zoo:"):
        return
    try:
        describe(text.removeprefix("zoo:").partition("@")[0])
    except UserError as error:
        raise UserError(f"{first_sentence(str(error))} See: passsearch zoo") from None


def _check_target(target: str) -> None:
    kind = target_kind(target)
    # A name with a slash is a tag of TVM's, such as `nvidia/nvidia-a100`.
    if kind not in TARGET_KINDS and "/" not in kind:
        raise UserError(f"Unknown target `{target}`; it begins with one of: {', '.join(TARGET_KINDS)}.")


def _check_sampler(sampler: str, objective: str) -> None:
    # It takes a second to load, which files without a sampler do not need.
    from passsearch.search.samplers import require_strategy

    require_strategy(sampler, objectives=len(objective.split(",")))


def _check_memory(memory_gb: float) -> None:
    if memory_gb * 1e9 > machine_memory_bytes():
        most = machine_memory_bytes() / 1e9
        raise UserError(f"`memory` must be at most {most:.1f}, what this machine has in GB; got {memory_gb:g}")


def _toolchains(jobs: Iterable[TuneJob]) -> list[Toolchain]:
    found = []
    for name in dict.fromkeys(job.toolchain for job in jobs):
        with suppress(UserError, EnvironmentFault):
            found.append(get_toolchain(name))
    return found


def _check_pass(name: str, toolchains: Sequence[Toolchain], catalogs: Sequence[Path]) -> None:
    if not toolchains:
        find_entry(name, list(DIALECTS), *catalogs)
    for toolchain in toolchains:
        require_searchable(load(toolchain.dialect, *catalogs), (name,), tvm_version=toolchain.tvm_version)
