"""``recommend``: the pipeline of a network, without building anything."""

from passsearch.cli.network import SLOW_S
from passsearch.cli.options import NETWORK, AsJson, Model, Shared, share_options
from passsearch.cli.output import print_result


@share_options("toolchain", "target", *NETWORK, "catalogs", "trust")
def recommend(model: Model, *, shared: Shared, as_json: AsJson = False) -> None:
    """Recommend a pipeline from what networks alike gained on this kind of processor; nothing is built.

    Says what to expect of it, what a search could still add, and abstains where the corpus has nothing like the
    network.
    """
    from passsearch import api
    from passsearch.report import ProgressBar

    with ProgressBar(delay_s=SLOW_S) as progress:
        document = api.recommend(model, **shared, progress=progress)
    print_result(document, str(document), as_json=as_json)
