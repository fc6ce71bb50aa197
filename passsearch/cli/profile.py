"""``profile``: the time of every kernel and block."""

from pathlib import Path
from typing import Annotated

import typer

from passsearch.cli.options import ALL, AsJson, Shared, share_options
from passsearch.cli.output import print_result, require_writable, split_names, write_text


@share_options(*ALL)
def profile(
    subject: Annotated[str, typer.Argument(metavar="RUN|MODEL", help="Run folder, or a network.")],
    *,
    pipelines: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Named pipelines or pipeline files, by commas; `best` is a run's winner. By default the baseline and "
            "the winner of a run, and the baseline of a network.",
        ),
    ] = None,
    pipeline: Annotated[
        list[str] | None,
        typer.Option(metavar="PASSES", help="A pipeline as text, `P,Q{k=1}`; repeatable."),
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the roofline as SVG to this file.")] = None,
    energy: Annotated[
        bool, typer.Option("--energy", help="Read the energy of every kernel, which runs alone for 2.5 s for that.")
    ] = False,
    shared: Shared,
    as_json: AsJson = False,
) -> None:
    """Show the time of every kernel in its place, by block, and what bounds it."""
    if svg is not None:
        require_writable(svg)
    from passsearch import api
    from passsearch.report import ProgressBar, chart_svg, profile_chart
    from passsearch.results import Profile

    with ProgressBar() as progress:
        document = api.profile(
            subject,
            [*(split_names(pipelines) or ()), *(pipeline or ())],
            **shared,
            energy=energy,
            progress=progress,
        )
    print_result(document, str(document), as_json=as_json)
    if svg is not None:
        # After the result, which has taken minutes: some profiles have no roofline.
        write_text(svg, chart_svg(profile_chart(Profile.from_json(document), "roofline")) + "\n")
