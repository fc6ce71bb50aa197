"""The function of a reproduction's script that builds with TVM's Relay alone."""

from importlib import import_module
from typing import Any

import onnx

from passsearch.dialects.reproduction.template import FAULT, MODEL, say


def of_tvm(side: Any, data: Any) -> Any:
    """Return the outputs of a pipeline, and a function that runs it."""
    import tvm
    from tvm import relay
    from tvm.contrib.graph_executor import GraphModule

    target, build = tvm.target.Target(FAULT["target"]), side["build"]
    say(step="import")
    module, weights = relay.frontend.from_onnx(onnx.load(str(MODEL)), {n: a.shape for n, a in data.items()})
    module["main"] = relay.build_module.bind_params_by_name(module["main"], weights)
    for text, factory, arguments in side["passes"]:
        say(step=text)
        name, _, function = factory.partition(":")
        with target, tvm.transform.PassContext(opt_level=4):
            module = getattr(import_module(name), function)(**arguments)(relay.transform.InferType()(module))
    say(step="build")
    with tvm.transform.PassContext(build["opt_level"], build["required"], build["disabled"], config=build["config"]):
        library = relay.build(module, target)
    say(step="run")
    network = GraphModule(library["default"](tvm.cpu()))
    network.set_input(**data)
    network.run()
    return [network.get_output(place).numpy() for place in range(network.get_num_outputs())], network.run
