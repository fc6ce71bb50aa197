"""The paper's seven networks, each from its own framework: ``python networks.py ssd_resnet50_mxnet --out FOLDER``.

Random weights from a fixed seed, sizes as in the paper. Writes the network as its framework keeps it, and beside it
``cases.npz``: three inputs and what the framework itself computes from them. One network a process: two of these
frameworks do not live in one.
"""

import argparse
import hashlib
import json
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

CASES = 3
SEED = 0

Arrays = list[np.ndarray]
Inputs = dict[str, np.ndarray]
Built = tuple[str, Callable[[Inputs], Arrays], dict[str, tuple[tuple[int, ...], str]]]
"""What it is saved as, the framework's own inference, and the inputs."""

VOCABULARY = 28996
"""Of bert-base-cased."""


def main() -> None:
    """Build one network and write it down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=NETWORKS)
    parser.add_argument("--out", type=Path, required=True, help="a folder NAME is made in it")
    arguments = parser.parse_args()
    folder = arguments.out / arguments.name
    folder.mkdir(parents=True, exist_ok=True)
    path, infer, inputs = NETWORKS[arguments.name](folder)
    arrays: dict[str, np.ndarray] = {}
    for case in range(CASES):
        given = draw(inputs, seed=case)
        arrays |= {f"in/{case}/{name}": array for name, array in given.items()}
        arrays |= {f"out/{case}/{index}": array for index, array in enumerate(infer(given))}
    np.savez(folder / "cases.npz", **arrays)
    spelled = [f"{name}:{dtype}[{','.join(map(str, shape))}]" for name, (shape, dtype) in inputs.items()]
    told = {"path": path, "inputs": spelled, "edition": edition()}
    (folder / "network.json").write_text(json.dumps(told) + "\n")


def edition() -> str:
    """Digest of what builds the networks: another edition of a network is another network."""
    home = Path(__file__).parent
    return hashlib.sha256(b"".join((home / name).read_bytes() for name in ("networks.py", "ssd.py"))).hexdigest()


def draw(inputs: Mapping[str, tuple[tuple[int, ...], str]], *, seed: int) -> Inputs:
    """Normal pixels, tokens of the vocabulary, an attention mask and segments of 0 and 1."""
    rng = np.random.default_rng(seed)
    values = {}
    for name, (shape, dtype) in inputs.items():
        limit = VOCABULARY if name == "input_ids" else 2
        drawn = rng.standard_normal(shape) if dtype.startswith("float") else rng.integers(0, limit, shape)
        values[name] = drawn.astype(dtype)
    return values


def resnet50_tensorflow(folder: Path) -> Built:
    """keras.applications' ResNet50V2, as a SavedModel."""
    import tensorflow as tf

    tf.keras.utils.set_random_seed(SEED)
    network = tf.keras.applications.ResNet50V2(weights=None)
    tf.saved_model.save(network, str(folder / folder.name))
    name = network.input_names[0]
    return folder.name, lambda given: [network(given[name]).numpy()], {name: ((1, 224, 224, 3), "float32")}


def resnet50_pytorch(folder: Path) -> Built:
    """transformers' ResNet-50."""
    from transformers import ResNetConfig, ResNetForImageClassification

    return _vision(folder, ResNetForImageClassification, config=ResNetConfig(num_labels=1000))


def mobilenet_v2_pytorch(folder: Path) -> Built:
    """transformers' MobileNetV2 1.0."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    return _vision(folder, MobileNetV2ForImageClassification, config=MobileNetV2Config(num_labels=1001))


def ssd_resnet50_pytorch(folder: Path) -> Built:
    """SSD300 of ``ssd.py``."""
    from ssd import SSD300

    return _traced(folder, SSD300, inputs={"image": ((1, 3, 300, 300), "float32")})


def ssd_resnet50_mxnet(folder: Path) -> Built:
    """gluoncv's SSD512 on ResNet-50."""
    return _gluon(folder, "ssd_512_resnet50_v1_voc", size=512)


def ssd_mobilenet_mxnet(folder: Path) -> Built:
    """gluoncv's SSD512 on MobileNet 1.0."""
    return _gluon(folder, "ssd_512_mobilenet1.0_voc", size=512)


def bert_squad_pytorch(folder: Path) -> Built:
    """transformers' BERT-base cased with the question answering head, 384 tokens."""
    from transformers import BertConfig, BertForQuestionAnswering

    config = BertConfig(vocab_size=VOCABULARY)
    config._attn_implementation = "eager"
    kind = ((1, 384), "int64")
    names = ("input_ids", "attention_mask", "token_type_ids")
    return _traced(folder, lambda: _in_tuples(BertForQuestionAnswering(config)), inputs=dict.fromkeys(names, kind))


def _vision(folder: Path, network: Any, *, config: Any) -> Built:
    return _traced(folder, lambda: _in_tuples(network(config)), inputs={"pixel_values": ((1, 3, 224, 224), "float32")})


def _in_tuples(network: Any) -> Any:
    """transformers' networks answer in a class of their own unless told otherwise."""
    network.config.return_dict = False
    return network


def _traced(folder: Path, make: Callable[[], Any], *, inputs: dict[str, tuple[tuple[int, ...], str]]) -> Built:
    """A torch module, as TorchScript."""
    import torch

    torch.manual_seed(SEED)
    network = make().eval()
    example = {name: torch.from_numpy(array) for name, array in draw(inputs, seed=0).items()}
    with torch.no_grad():
        torch.jit.save(
            torch.jit.trace(network, tuple(example.values()), strict=False), str(folder / f"{folder.name}.pt")
        )

    def infer(given: Inputs) -> Arrays:
        with torch.no_grad():
            answer = network(*map(torch.from_numpy, given.values()))
        return [each.numpy() for each in (answer if isinstance(answer, tuple | list) else (answer,))]

    return f"{folder.name}.pt", infer, inputs


def _gluon(folder: Path, name: str, *, size: int) -> Built:
    """A gluon block, as symbol and parameters."""
    import mxnet as mx

    sys.modules["torch"] = None  # type: ignore[assignment]  # gluoncv refuses to import beside a torch of today
    from gluoncv import model_zoo

    random.seed(SEED)
    np.random.seed(SEED)
    mx.random.seed(SEED)
    network = model_zoo.get_model(name, pretrained=False, pretrained_base=False)
    network.collect_params(".*weight").initialize(mx.init.Xavier())
    network.collect_params("^(?!.*weight)").initialize()
    inputs = {"data": ((1, 3, size, size), "float32")}
    image = mx.nd.array(draw(inputs, seed=0)["data"])
    _level(network, image)
    network.hybridize()
    network(image)
    network.export(str(folder / folder.name))

    def infer(given: Inputs) -> Arrays:
        return [each.asnumpy() for each in network(mx.nd.array(given["data"]))]

    return f"{folder.name}-symbol.json", infer, inputs


def _level(network: Any, image: Any) -> None:
    """Scale the weights of every prediction head until it answers with a standard deviation of 1.

    Random weights otherwise lead to boxes of infinite size and to scores that are all 1, whose order means nothing.
    """
    spread: dict[str, float] = {}
    heads = [head for heads in (network.class_predictors, network.box_predictors) for head in heads]
    hooks = [
        head.register_forward_hook(lambda block, _, answer: spread.update({block.name: float(answer.asnumpy().std())}))
        for head in heads
    ]
    network(image)
    for head, hook in zip(heads, hooks, strict=True):
        hook.detach()
        weight = head.predictor.weight
        weight.set_data(weight.data() / spread[head.name])


NETWORKS: Mapping[str, Callable[[Path], Built]] = {
    "resnet50_tensorflow": resnet50_tensorflow,
    "resnet50_pytorch": resnet50_pytorch,
    "mobilenet_v2_pytorch": mobilenet_v2_pytorch,
    "ssd_resnet50_pytorch": ssd_resnet50_pytorch,
    "ssd_resnet50_mxnet": ssd_resnet50_mxnet,
    "ssd_mobilenet_mxnet": ssd_mobilenet_mxnet,
    "bert_squad_pytorch": bert_squad_pytorch,
}

if __name__ == "__main__":
    main()
