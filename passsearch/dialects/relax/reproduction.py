"""The function of a reproduction's script that builds with TVM's Relax alone."""

from importlib import import_module
from typing import Any

import onnx

from passsearch.dialects.reproduction.template import FAULT, MODEL, say


def of_tvm(side: Any, data: Any) -> Any:
    """Return the outputs of a pipeline, and a function that runs it."""
    import tvm
    from tvm.relax.frontend.onnx import from_onnx

    words = [word.lstrip("-").partition("=")[::2] for word in f"kind={FAULT['target']}".split()]
    target = tvm.target.Target({key: int(text) if text.isdigit() else text for key, text in words})
    say(step="import")
    module = from_onnx(onnx.load(str(MODEL)), sanitize_input_names=False)
    for text, factory, arguments in side["passes"]:
        say(step=text)
        name, _, function = factory.partition(":")
        with target, tvm.transform.PassContext(opt_level=4):
            module = getattr(import_module(name), function)(**arguments)(module)
    say(step="build")
    loops = "LegalizeOps FuseTIR RewriteDataflowReshape ToNonDataflow RemovePurityChecking CallTIRRewrite "
    lowering = "" if "alloc_storage" in str(module) else loops
    lowering += "LowerAllocTensor KillAfterLastUse LowerRuntimeBuiltin ComputePrimValue VMShapeLower AttachGlobalSymbol"
    alone = tvm.transform.Sequential([getattr(tvm.relax.transform, name)() for name in lowering.split()])
    pipeline = tvm.relax.get_default_pipeline(target) if side["build"]["opt_level"] else alone
    library = tvm.compile(module, target, relax_pipeline=pipeline)
    say(step="run")
    main = tvm.relax.VirtualMachine(library, tvm.cpu())["main"]
    arrays = [tvm.runtime.tensor(data[str(each.name)]) for each in module["main"].params]
    outputs = main(*arrays)
    outputs = [outputs] if isinstance(outputs, tvm.runtime.Tensor) else list(outputs)
    return [each.numpy() for each in outputs], lambda: main(*arrays)
