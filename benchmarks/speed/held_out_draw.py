"""Draws networks that nothing in passsearch was made with, by chance, and checks that they can be written as ONNX.

``VENV/bin/python -m benchmarks.speed.held_out_draw FOLDER`` writes the networks into a folder, and what was drawn into
``benchmarks/results/held_out/draw.json``; a draw that was cut off goes on. VENV is as in ``held_out_networks``, and has
nothing of passsearch. No network is compiled or timed here.

The rules:

1. *Populations.* ``timm``: all networks of ``timm``. ``torchvision``: all of its networks. ``text``, ``image``,
   ``audio``: all kinds of network in transformers by their main input, in the default configuration with
   ``num_hidden_layers`` of four at most. ``recommender``, ``graph``: ten well-known ones each, written out where drawn.
   ``package``: trained networks in ONNX files of packages.
2. *Left out* is what the files of the commit ``BEFORE`` name, and its relatives: of ``timm`` all networks of a source
   file of which one is named, of the others all whose name shares a part with a family of the corpus or with a network
   that is named.
3. *Order.* By chance; it follows from the number of ``BEFORE`` and the versions in ``draw.json``. Of ``timm`` first
   the source file, then a network in it, one of each file.
4. *Replaced* by the next draw is a network that PyTorch cannot build, run on one input or write as ONNX in two minutes
   of processor time, that has more than 150 million parameters or 40 GFLOP, or whose outputs are not finite, hardly
   depend on its inputs, or change by rounding (where float64 runs), or whose file has less than nine tenths of its
   parameters. ``draw.json`` has each with the reason. Those of packages are taken as they are.

Rules, seed and the first seventeen draws are of one commit. No name of the six written out, nor of the networks of
packages that were drawn, is in a file of ``BEFORE``. Some networks are close to those of the corpus by architecture,
under other names: LayoutLM, LayoutLMv3, I-BERT and YOSO to BERT, GPTBigCode to GPT-2, Data2Vec to ViT and to wav2vec
2.0, OmniASR to the latter.
"""

import contextlib
import copy
import json
import math
import random
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.search import corpus_networks
from benchmarks.speed import held_out_networks

ROOT = Path(__file__).parents[2]
OUT = ROOT / "benchmarks" / "results" / "held_out" / "draw.json"
BEFORE = "c415ac18"
"""The commit before the draw: a network that its files name is left out. Its number is the seed."""

SEED = int(BEFORE, 16)
PARAMETERS, OPERATIONS = 150e6, 40e9
"""The largest network, and the most floating-point operations of an inference, by PyTorch's counter."""

ROUNDING, DEPENDENCE = 1e-5, 1e-3
"""Largest share of the largest output by which float32 may differ from float64, and least by which inputs may."""

LEAST_SHARE = 0.9
"""Least share of a network's parameters that its file has."""

WRITING_S = 120
"""Longest processor time in which a network is built, checked and written."""

SIZES = {"graph": 3, "recommender": 3, "package": 3, "timm": 14, "torchvision": 2, "text": 7, "audio": 4, "image": 4}
"""Number of networks by kind, 40 in all. Of torchvision three were meant, but its population ended after two: of the
eight refused, six are video networks that are too large or that our clip does not fit."""

RECOMMENDERS = (
    *("autoint", "dcn_v2", "din", "gru4rec", "mmoe", "neural_collaborative_filtering", "pnn", "sasrec"),
    *("wide_and_deep", "xdeepfm"),
)
GRAPHS = ("edgeconv", "egnn", "gat", "gcn", "ggnn", "gin", "graphsage", "mpnn", "pna", "schnet")
MAIN_INPUTS = {
    "text": ("input_ids",),
    "image": ("pixel_values",),
    "audio": ("input_values", "input_features", "audio_values"),
}


class AnotherKind(Exception):
    """A network of transformers has another main input."""


@cache
def text() -> str:
    """Return all text files of the commit before the draw, in lower case."""
    done = subprocess.run(["git", "archive", "--format=tar", BEFORE], cwd=ROOT, capture_output=True, check=True)
    return done.stdout.decode(errors="ignore").lower()


@cache
def words() -> frozenset[str]:
    """Return the words of these files; a name with underscores is one."""
    return frozenset(re.findall(r"[a-z0-9_]+", text()))


def stem(part: str) -> str:
    """Return a part of a name without its version or size: ``swin`` of ``swin3d``, ``lcnet`` of ``lcnetv2``."""
    return re.sub(r"(_?v?\d+[a-z]?)$", "", part)


@cache
def families() -> frozenset[str]:
    """Return the families of the corpus, and the kinds of networks of transformers that the files name."""
    named = [each[0] for each in (*corpus_networks.TIMM.values(), *corpus_networks.TRANSFORMERS.values())]
    others = ("resnext", "quantized", *corpus_networks.ZOO.values(), *(kind for kind in _kinds() if is_named(kind)))
    return frozenset({*named, *others})


@cache
def is_named(name: str) -> bool:
    return name.replace("-", "_") in words() or name in text()


def is_related(name: str) -> bool:
    """Return whether a part of a name is that of a family which is left out."""
    parts = re.split(r"[-_.]", name)
    return any({part, stem(part)} & families() for part in parts)


def _kinds() -> list[str]:
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return sorted(MODEL_MAPPING_NAMES)


def candidates(kind: str) -> Iterator[str]:
    """Yield the networks of a kind in the order in which they are drawn."""
    chance = random.Random(f"{SEED} {kind}")
    if kind == "timm":
        yield from _timm_names(chance)
        return
    source, names = {
        "torchvision": ("torchvision", _torchvision_names),
        "recommender": ("hand", lambda: RECOMMENDERS),
        "graph": ("hand", lambda: GRAPHS),
        "package": ("package", lambda: held_out_networks.PACKAGES),
    }.get(kind, ("transformers", lambda: [each for each in _kinds() if not is_named(each) and not is_related(each)]))
    population = sorted(names())
    yield from (f"{source}-{each}" for each in chance.sample(population, len(population)))


def _timm_names(chance: random.Random) -> Iterator[str]:
    """Yield all networks of one source file of timm after another; files with a network that is named are left out."""
    import timm
    from timm.models import _registry

    files: dict[str, list[str]] = {}
    for name in timm.list_models():
        files.setdefault(_registry._model_to_module[name], []).append(name)
    named = {file for file, names in files.items() if any(name in words() for name in names)}
    left = [file for file in files if not any(file == each or file.startswith(f"{each}_") for each in named)]
    population = sorted(file for file in left if not is_related(file))
    for file in chance.sample(population, len(population)):
        yield from (f"timm-{name}" for name in chance.sample(sorted(files[file]), len(files[file])))


def _torchvision_names() -> list[str]:
    import torchvision

    names = torchvision.models.list_models()
    named = {stem(re.split("_", name)[0]) for name in names if is_named(name)}
    return [name for name in names if stem(re.split("_", name)[0]) not in named and not is_related(name)]


def check(name: str, kind: str, folder: Path) -> dict[str, Any]:
    """Write a network, and return its size.

    Raises:
        ValueError: It is too large, or its outputs would not say whether an engine is right.
    """
    if kind == "package":
        held_out_networks.make(name, str(folder / f"{name}.onnx"))
        return {}
    if kind in MAIN_INPUTS:
        _require_kind(name, kind)
    elif kind in ("timm", "torchvision"):
        _require_size_without_weights(name)
    module, inputs = held_out_networks.module_of(name)
    _require_size(module)
    output, operations = _output(module, inputs)
    _judge(module, inputs, output)
    source = name.partition("-")[0]
    held_out_networks.export(module, inputs, str(folder / f"{name}.onnx"), dynamo=source not in ("timm", "torchvision"))
    parameters = sum(each.numel() for each in module.parameters())
    _require_whole(folder / f"{name}.onnx", parameters)
    return {
        "parameters": parameters,
        "gflop": round(operations / 1e9, 3),
        "inputs": [list(each.shape) for each in inputs],
    }


def _require_whole(file: Path, parameters: int) -> None:
    """Refuse a file that lacks much of its network, because the output needs a part of it only."""
    import onnx

    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)
    tensors = onnx.load(str(file), load_external_data=False).graph.initializer
    share = sum(math.prod(each.dims) for each in tensors if each.data_type in floats) / parameters
    if share < LEAST_SHARE:
        file.unlink()
        raise ValueError(f"the output needs {100 * share:.0f} % of the parameters only")


def _require_kind(name: str, kind: str) -> None:
    """Refuse another main input, or too many parameters, before any is allocated."""
    import torch
    from transformers import AutoModel

    with torch.device("meta"):
        module = AutoModel.from_config(held_out_networks.configuration(name.partition("-")[2]))
    if module.main_input_name not in MAIN_INPUTS[kind]:
        raise AnotherKind
    _require_size(module)


def _require_size_without_weights(name: str) -> None:
    """Refuse what is too large before any weight is allocated, where the source can do without."""
    import torch

    try:
        with torch.device("meta"):
            module, inputs = held_out_networks.built(name)
        _require_size(module)
        _output(module.eval(), inputs)
    except ValueError:
        raise
    except Exception:  # noqa: BLE001 -- not all can do without weights; the check with weights says what is wrong
        return


def _output(module: Any, inputs: tuple[Any, ...]) -> tuple[Any, int]:
    """Return the output, and the number of operations.

    Raises:
        ValueError: There are too many.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        output = module(*inputs)
    operations = counter.get_total_flops()
    if operations > OPERATIONS:
        raise ValueError(f"{operations / 1e9:.0f} GFLOP")
    return output, operations


def _require_size(module: Any) -> None:
    parameters = sum(each.numel() for each in module.parameters())
    if parameters > PARAMETERS:
        raise ValueError(f"{parameters / 1e6:.0f} million parameters")


def _judge(module: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Refuse outputs that are not finite, or hardly depend on the inputs, or depend on rounding."""
    import torch

    if not torch.isfinite(output).all():
        raise ValueError("outputs are not finite")
    largest = output.abs().max()
    others = tuple(each.flip(-1) if not each.is_floating_point() else each.flip(-1) * 0.9 for each in inputs)
    with torch.no_grad():
        change = (module(*others) - output).abs().max() / largest
    if not change > DEPENDENCE:
        raise ValueError(f"other inputs change outputs by {change:.1e} of the largest only")
    doubles = tuple(each.double() if each.is_floating_point() else each for each in inputs)
    with contextlib.suppress(RuntimeError, TypeError), torch.no_grad():  # some compute in float32 whatever they get
        exact = copy.deepcopy(module).double()(*doubles)
        rounding = ((exact - output).abs().max() / largest).item()
        if rounding > ROUNDING:
            raise ValueError(f"rounding changes outputs by {rounding:.1e} of the largest")


def draw(kind: str, rows: list[dict[str, Any]], folder: Path, keep: Callable[[], None]) -> None:
    """Draw networks of a kind until enough can be taken, one of each source file of timm."""
    files = {row["file"] for row in rows if row["taken"] and "file" in row}
    known = {row["name"] for row in rows}
    for name in candidates(kind):
        taken = sum(row["taken"] and row["kind"] == kind for row in rows)
        if taken == SIZES[kind]:
            return
        file = _file(name) if kind == "timm" else None
        if name in known or file in files:
            continue
        signal.setitimer(signal.ITIMER_PROF, WRITING_S)
        try:
            row = {"taken": True, **check(name, kind, folder)}
        except AnotherKind:
            continue
        except Exception as error:  # noqa: BLE001 -- whatever keeps a network from being written is its reason
            lines = traceback.format_exception_only(error)[-1].strip().splitlines()
            row = {"taken": False, "reason": lines[0][:200]}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        rows.append({"kind": kind, "name": name, **({"file": file} if file else {}), **row})
        files |= {file} if file and row["taken"] else set()
        print(json.dumps(rows[-1]), flush=True)
        keep()


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"takes more than {WRITING_S} s of processor time")


def _file(name: str) -> str:
    from timm.models import _registry

    return str(_registry._model_to_module[name.partition("-")[2]])


def main() -> None:
    from importlib.metadata import version

    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGPROF, _too_long)
    folder, kinds = Path(sys.argv[1]), sys.argv[2:] or list(SIZES)
    folder.mkdir(parents=True, exist_ok=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    rows = json.loads(OUT.read_text())["draws"] if OUT.exists() else []
    packages = {name: version(name) for name in ("torch", "torchvision", "timm", "transformers", "onnx", "onnxscript")}
    for kind in kinds:
        draw(
            kind,
            rows,
            folder,
            lambda: OUT.write_text(
                json.dumps({"before": BEFORE, "packages": packages, "draws": rows}, indent=1) + "\n"
            ),
        )


if __name__ == "__main__":
    main()
