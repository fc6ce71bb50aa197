"""Writes the zoo's decoder as GGUF, and serves one token by an engine, as ``decoders.py`` asks.

``python benchmarks/speed/decoder_engines.py write WEIGHTS.npz TYPE FILE.gguf HEADS KEY_HEADS`` and ``… serve llama.cpp
FILE.gguf PROMPT.npz 2 SCORES.npy`` (two threads) need ``llama-cpp-python`` and ``gguf``; ``deployment FOLDER`` in place
of the engine and its file needs the deployment's TVM, and an engine of passsearch with an ONNX file that engine. The
prompt's last token is decoded again and again, each time with the keys and values of all others alone. The file of the
prompt has its ``tokens``, and these keys and values by the names of the network's inputs.
"""

import ctypes
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np

EPSILON, ROTARY_BASE = 1e-5, 10000.0
ADAPTERS = ("onnxruntime", "openvino", "openvino_weights")
LAYER = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
GPT2_LAYER = ("attn_qkv", "attn_output", "ffn_up", "ffn_down")
"""The products of a layer, in the order of the zoo's networks."""

POSITIONS = "position_embd.weight"


def interleaved(weights: Any, heads: int) -> Any:
    """Return weights whose rotated pairs of channels are neighbours, as in llama.cpp, and not half a head apart."""
    width = weights.shape[0] // heads
    return weights.reshape(heads, 2, width // 2, -1).swapaxes(1, 2).reshape(weights.shape)


def all_of(arrays: Any, kind: str) -> list[Any]:
    """Return the weights of a kind in the order of the zoo's network."""
    return [arrays[f"{kind}_{place + 1}"] for place in range(sum(name.startswith(kind) for name in arrays))]


def llama_tensors(arrays: Any, heads: Mapping[str, int]) -> Iterator[tuple[str, Any]]:
    """Yield the weights of ``llama`` by llama.cpp's names; the embedding is the output layer, too.

    Args:
        arrays: The weights by the zoo's names.
        heads: Numbers of heads of the products whose channels are rotated.
    """
    products, norms = [each.T for each in all_of(arrays, "projection_weight")], all_of(arrays, "rms_norm_scale")
    (embedding,) = all_of(arrays, "embedding")
    yield "token_embd.weight", embedding
    yield "output_norm.weight", norms[-1]
    for layer in range(len(products) // len(LAYER)):
        for place, name in enumerate(("attn_norm", "ffn_norm")):
            yield f"blk.{layer}.{name}.weight", norms[2 * layer + place]
        for name, weights in zip(LAYER, products[len(LAYER) * layer :], strict=False):
            yield f"blk.{layer}.{name}.weight", interleaved(weights, heads[name]) if name in heads else weights


def gpt2_tensors(arrays: Any) -> Iterator[tuple[str, Any]]:
    """Yield the weights of ``gpt2`` in the same way."""
    norms, products = (
        [*zip(all_of(arrays, f"{kind}_{part}"), all_of(arrays, f"{kind}_bias"), strict=True)]
        for kind, part in (("layer_norm", "scale"), ("linear", "weight"))
    )
    yield from zip(("token_embd.weight", POSITIONS), all_of(arrays, "embedding"), strict=True)
    named = {"output_norm": norms[-1]}
    for layer in range(len(products) // len(GPT2_LAYER)):
        named |= {
            f"blk.{layer}.{name}": norms[2 * layer + place] for place, name in enumerate(("attn_norm", "ffn_norm"))
        }
        weights = products[len(GPT2_LAYER) * layer :]
        named |= {f"blk.{layer}.{name}": each for name, each in zip(GPT2_LAYER, weights, strict=False)}
    for name, (weight, bias) in named.items():
        yield f"{name}.weight", weight.T
        yield f"{name}.bias", bias


def write(weights: str, kind: str, file: str, heads: str, key_heads: str) -> None:
    """Write the weights as GGUF, its matrices in a type such as ``Q8_0``."""
    import gguf

    arrays = np.load(weights)
    is_gpt2 = "layer_norm_scale_1" in arrays
    writer = gguf.GGUFWriter(file, "gpt2" if is_gpt2 else "llama")
    rotated = {"attn_q": int(heads), "attn_k": int(key_heads)}
    named = dict(gpt2_tensors(arrays) if is_gpt2 else llama_tensors(arrays, rotated))
    vocabulary, hidden = named["token_embd.weight"].shape
    writer.add_context_length(len(named[POSITIONS]) if is_gpt2 else 512)
    writer.add_embedding_length(hidden)
    writer.add_block_count(sum(name.endswith("ffn_up.weight") for name in named))
    writer.add_feed_forward_length(named["blk.0.ffn_up.weight"].shape[0])
    writer.add_head_count(int(heads))
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("none")
    if is_gpt2:
        writer.add_layer_norm_eps(EPSILON)
    else:
        writer.add_head_count_kv(int(key_heads))
        writer.add_layer_norm_rms_eps(EPSILON)
        writer.add_rope_dimension_count(hidden // int(heads))
        writer.add_rope_freq_base(ROTARY_BASE)
    for name, array in named.items():
        values = np.ascontiguousarray(array)
        storage = gguf.GGMLQuantizationType[kind if array.ndim > 1 and name != POSITIONS else "F32"]
        writer.add_tensor(name, gguf.quants.quantize(values, storage), raw_dtype=storage)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Decoder:
    """A network in llama.cpp that has read a prompt but for its last token."""

    def __init__(self, file: str, prompt: Any, threads: int) -> None:
        import llama_cpp

        self._library = llama_cpp
        llama_cpp.llama_backend_init()
        self._model = llama_cpp.llama_model_load_from_file(file.encode(), llama_cpp.llama_model_default_params())
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx, parameters.n_threads, parameters.n_threads_batch = 512, threads, threads
        self._context = llama_cpp.llama_init_from_model(self._model, parameters)
        self._tokens, self._count = (llama_cpp.llama_token * len(prompt))(*map(int, prompt)), len(prompt) - 1
        # One at a time: several at once are multiplied by AMX, which processors have that no virtual machine may use.
        for place in range(self._count):
            self._decode(place, 1)

    def run(self) -> None:
        """Decode the last token."""
        memory = self._library.llama_get_memory(self._context)
        self._library.llama_memory_seq_rm(memory, 0, self._count, -1)
        self._decode(self._count, 1)

    def logits(self) -> Any:
        """Return the scores of the next token."""
        size = self._library.llama_vocab_n_tokens(self._library.llama_model_get_vocab(self._model))
        return np.ctypeslib.as_array(self._library.llama_get_logits_ith(self._context, -1), (size,)).copy()

    def _decode(self, first: int, count: int) -> None:
        tokens = ctypes.cast(
            ctypes.byref(self._tokens, first * ctypes.sizeof(self._library.llama_token)),
            ctypes.POINTER(self._library.llama_token),
        )
        batch = self._library.llama_batch_get_one(tokens, count)
        if status := self._library.llama_decode(self._context, batch):
            raise RuntimeError(f"llama_decode returned {status}")


class Deployment:
    """The same of a deployment."""

    def __init__(self, folder: str, prompt: Any) -> None:
        sys.path.insert(0, folder)
        import run_model

        self._network = run_model.load(f"{folder}/built")
        self._inputs = {name: prompt[name] for name in prompt if name != "tokens"}
        self._inputs["input_ids"] = prompt["tokens"][None, -1:]

    def run(self) -> None:
        """Decode the last token."""
        self._outputs = self._network(**self._inputs)

    def logits(self) -> Any:
        """Return the scores of the next token."""
        return np.asarray(self._outputs[0]).ravel()


class Adapted:
    """The same of an engine of passsearch; it may also run in an interpreter without passsearch's packages."""

    def __init__(self, engine: str, file: str, prompt: Any, threads: int) -> None:
        adapters = [import_module(f"passsearch.engines.adapters.{name}") for name in ADAPTERS]
        adapter = next(each for each in adapters if engine in each.ENGINES)
        past = {name: prompt[name] for name in prompt if name != "tokens"}
        self._inputs = {"input_ids": prompt["tokens"][None, -1:], **past}
        self._engine = adapter.open_engine(file, threads=threads, inputs=self._inputs, **adapter.ENGINES[engine])
        self.run = self._engine.infer

    def logits(self) -> Any:
        """Return the scores of the next token."""
        return np.asarray(self._engine.outputs(self._inputs)[0]).ravel()


def serve(engine: str, path: str, prompt: str, threads: str, scores: str) -> None:
    """Write the scores, and answer each line, a number of seconds, with the fastest and the median run in it."""
    # Engines print to the standard output, too.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    inputs = dict(np.load(prompt))
    decoder: Decoder | Deployment | Adapted
    if engine == "llama.cpp":
        decoder = Decoder(path, inputs["tokens"], int(threads))
    elif engine == "deployment":
        decoder = Deployment(path, inputs)
    else:
        decoder = Adapted(engine, path, inputs, int(threads))
    decoder.run()
    np.save(scores, decoder.logits())
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(timed(decoder.run, float(line))), file=answers, flush=True)


def timed(run: Any, seconds: float) -> dict[str, float]:
    """Return the fastest and the median call within some seconds; the first one fills the caches."""
    run()
    times, begin = [], time.perf_counter()
    while not times or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return {"fastest_s": min(times), "median_s": sorted(times)[len(times) // 2]}


if __name__ == "__main__":
    {"write": write, "serve": serve}[sys.argv[1]](*sys.argv[2:])
