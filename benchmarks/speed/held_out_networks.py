"""Writes networks as ONNX by their source: timm, torchvision, transformers, modules written out, files of packages.

``VENV/bin/python -m benchmarks.speed.held_out_networks NAME FILE`` needs ``torch``, ``timm``, ``torchvision``,
``transformers``, ``onnx``, ``onnxscript`` and ``onnxruntime``, and nothing of passsearch. A name is ``SOURCE-NETWORK``,
such as ``timm-convit_tiny``. Weights are random, but for those of packages, whose wheels ``pip`` downloads.
"""

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OPSET, LAYERS, SEED = 18, 4, 0
"""Version of ONNX, most layers of a network of transformers, and seed of weights and inputs."""

PACKAGES: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "basic_pitch": ("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx", (1, 43844, 1)),
    "magika": ("magika==1.0.3", "magika/models/standard_v3_3/model.onnx", (1, 2048)),
    "ocr_boxes": (
        "rapidocr-onnxruntime==1.4.4",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        (1, 3, 320, 320),
    ),
    "ocr_direction": (
        "rapidocr-onnxruntime==1.4.4",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        (1, 3, 48, 192),
    ),
    "ocr_text": (
        "rapidocr-onnxruntime==1.4.4",
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        (1, 3, 48, 320),
    ),
}
"""Requirement, file in the wheel and shape of its one input, by name; the weights are trained."""

VIDEO = (1, 3, 8, 112, 112)
IMAGE = (1, 3, 224, 224)


def make(name: str, file: str) -> None:
    """Write a network as ONNX."""
    source, _, network = name.partition("-")
    if source == "package":
        _write_package(network, file)
    else:
        export(*module_of(name), file, dynamo=source not in ("timm", "torchvision"))


def export(module: Any, inputs: tuple[Any, ...], file: str, *, dynamo: bool) -> None:
    """Write a module as ONNX."""
    import torch

    settings = {"external_data": False} if dynamo else {}
    with torch.no_grad():
        torch.onnx.export(module, inputs, file, dynamo=dynamo, opset_version=OPSET, **settings)


def module_of(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a module in inference mode with one output and random weights, and its inputs."""
    import torch

    torch.manual_seed(SEED)
    module, inputs = built(name)
    with torch.no_grad():
        for weights in module.parameters():
            if not weights.any():  # a classifier of zeros has outputs that nothing can make wrong
                torch.nn.init.normal_(weights, std=0.02)
    return module.eval(), inputs


def built(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a module with one output as its source makes it, and its inputs."""
    source, _, network = name.partition("-")
    if source == "hand":
        from benchmarks.speed import held_out_modules

        return held_out_modules.module_of(network)
    makers = {"timm": _timm, "torchvision": _torchvision, "transformers": _transformer}
    return makers[source](network)


def one_output(module: Any) -> Any:
    """Return a module with the first floating tensor among its outputs alone, or in the last item of a list."""
    import torch

    class OneOutput(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *inputs: Any) -> Any:
            outputs = self.module(*inputs)
            return next(_floating(outputs[-1] if isinstance(outputs, list) else outputs))

    return OneOutput()


def _floating(outputs: Any) -> Iterator[Any]:
    import torch

    if isinstance(outputs, torch.Tensor):
        if outputs.is_floating_point():
            yield outputs
    elif hasattr(outputs, "values"):
        for each in outputs.values():
            yield from _floating(each)
    elif isinstance(outputs, list | tuple):
        for each in outputs:
            yield from _floating(each)


def _timm(name: str) -> tuple[Any, tuple[Any, ...]]:
    import timm
    import torch

    module = timm.create_model(name, pretrained=False)
    return one_output(module), (torch.randn(1, *module.default_cfg["input_size"]),)


def _torchvision(name: str) -> tuple[Any, tuple[Any, ...]]:
    import torch
    import torchvision

    module = torchvision.models.get_model(name, weights=None, **_without_weights(name))
    if torchvision.models.get_model_builder(name).__module__.startswith("torchvision.models.video"):
        return one_output(module.eval()), (torch.randn(VIDEO),)
    if name.startswith("raft"):
        return one_output(module.eval()), (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128))
    return one_output(module.eval()), (torch.randn(IMAGE),)


def _without_weights(name: str) -> dict[str, Any]:
    return {"init_weights": True} if name == "googlenet" else {}


def configuration(name: str) -> Any:
    """Return the default configuration of a kind of network of transformers, with few layers."""
    from transformers import CONFIG_MAPPING

    config = CONFIG_MAPPING[name]()
    layers = getattr(config, "num_hidden_layers", None)
    if isinstance(layers, int) and layers > LAYERS:
        config.num_hidden_layers = LAYERS
    if hasattr(config, "use_cache"):
        config.use_cache = False
    return config


def _transformer(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a network of transformers that has one input, and the first input of usual sizes that it takes."""
    import torch
    from transformers import AutoModel

    module = AutoModel.from_config(configuration(name)).eval()
    one = one_output(module)
    reasons = []
    for each in _inputs(module):
        try:
            with torch.no_grad():
                one(each)
        except Exception as error:  # noqa: BLE001, PERF203 -- the next size is tried
            reasons.append(f"{type(error).__name__}: {error}")
        else:
            return one, (each,)
    raise ValueError(f"takes no input of usual sizes: {reasons[:1]}")


def _inputs(module: Any) -> Iterator[Any]:
    """Yield inputs of usual sizes: 128 tokens, an image, a second of sound or its spectrogram."""
    import torch

    config, kind = module.config, module.main_input_name
    if kind == "input_ids":
        yield torch.randint(5, min(getattr(config, "vocab_size", 1000), 1000), (1, 128))
    elif kind == "pixel_values":
        side = getattr(config, "image_size", None)
        for each in dict.fromkeys((side if isinstance(side, int) else 224, 224, 512)):
            yield torch.randn(1, getattr(config, "num_channels", 3), each, each)
    elif kind == "input_values":
        for shape in ((1, 16000), (1, 1, 16000), (1, 1024, 128)):
            yield torch.randn(shape)
    elif kind in ("input_features", "audio_values"):
        bins = next(
            (getattr(config, key) for key in ("num_mel_bins", "feature_size", "input_dim") if hasattr(config, key)), 80
        )
        for shape in ((1, bins, 3000), (1, 300, bins), (1, 1024, 128), (1, 1, 16000)):
            yield torch.randn(shape)


def _write_package(name: str, file: str) -> None:
    """Write the network of a package, with the size of its input fixed."""
    import onnx
    from onnxruntime.tools.onnx_model_utils import make_input_shape_fixed

    requirement, path, shape = PACKAGES[name]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, requirement]
        subprocess.run(command, check=True)
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            network = onnx.load_from_string(wheel.read(path))
    make_input_shape_fixed(network.graph, network.graph.input[0].name, shape)
    onnx.save(network, file)


if __name__ == "__main__":
    make(*sys.argv[1:])
