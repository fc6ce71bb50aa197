"""Code in a jobs file that a node would run, and folders of runs elsewhere: the file may be another person's."""

from collections.abc import Iterator

from passsearch.batch.jobs_file import Device, JobsFile
from passsearch.core import printable, require_trust
from passsearch.evaluate import find_options


def require_trusted(file: JobsFile, *, trust: bool) -> None:
    """Refuse a jobs file that runs code or writes elsewhere, unless the user trusts it; if so, tell first what it does.

    Raises:
        UserError: The file runs code or writes elsewhere, and the user does not trust it.
    """
    require_trust(file.path, list(map(printable, _code(file))), trust=trust)
    if file.path.resolve().parent not in file.runs.resolve().parents:
        place = f"runs in `{file.runs}`, which is not below the folder of the file"
        require_trust(file.path, [place], trust=trust, danger="would write elsewhere", action="writes elsewhere")


def _code(file: JobsFile) -> Iterator[str]:
    catalogs = file.options.get("catalogs")
    for catalog in catalogs if isinstance(catalogs, list) else []:
        yield f"the passes of `{catalog}` (catalogs)"
    if file.options.get("trust"):
        yield "whatever its networks call (trust)"
    for device in file.devices:
        yield from _code_of_device(device)


def _code_of_device(device: Device) -> Iterator[str]:
    for line in device.setup:
        yield f"`{line}` before each job of `{device.name}` (setup)"
    if device.container:
        yield f"`{device.container}` for each job of `{device.name}` (container)"
    further = device.slurm.get("additional_parameters")
    for name, value in further.items() if isinstance(further, dict) else ():
        yield f"`sbatch --{name}={value}` for `{device.name}` (slurm)"
    for target in device.targets:
        yield from find_options(target or "")
