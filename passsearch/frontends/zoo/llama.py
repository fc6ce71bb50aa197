"""A decoder as in Llama, in the form that reads a prompt and in the form that adds one token.

Touvron et al., "Llama 2: Open Foundation and Fine-Tuned Chat Models" (2023): rotary positions, RMS norms, grouped
queries and SwiGLU. The graph has the operators that PyTorch's exporter writes for `LlamaForCausalLM` in
`transformers/models/llama/modeling_llama.py`, without those that compute shapes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx

from passsearch.errors import UserError
from passsearch.frontends.zoo.builder import GraphBuilder, Tensor

__all__ = ["llama"]

_EPSILON = 1e-5
_ROTARY_BASE = 10000.0
# A finite number: a mask of the lowest float32 overflows if scores are added to it.
_MASKED = -10000.0
# Random attention averages over all tokens; at full strength it would make all tokens equal within a few layers.
_ATTENTION_GAIN = 0.1


@dataclass(frozen=True)
class _Heads:
    """The attention of one layer.

    Attributes:
        queries: Number of heads of queries.
        keys: Number of heads of keys and values, which divides that of queries.
        cosine: Cosines of the rotation, (1, 1, sequence, width).
        sine: Sines of the rotation.
        mask: Numbers that are added to scores, (1, 1, sequence, cached + sequence); ``None`` for one token.
    """

    queries: int
    keys: int
    cosine: Tensor
    sine: Tensor
    mask: Tensor | None


def llama(
    *,
    batch: int = 1,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    key_heads: int = 4,
    intermediate: int = 2048,
    sequence: int = 128,
    cached: int = 0,
    vocabulary: int = 32000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build a decoder with its language-modelling head; the defaults have 100 million parameters.

    Args:
        batch: Number of sequences.
        layers: Number of decoder layers.
        hidden: Width of the decoder, a multiple of `heads`.
        heads: Number of heads of queries, a multiple of `key_heads`.
        key_heads: Number of heads of keys and values.
        intermediate: Width inside of the feed-forward layers.
        sequence: Tokens to read: those of a prompt, or 1.
        cached: Tokens read before, whose keys and values are inputs.
        vocabulary: Number of different tokens.
        seed: Seed of the weights, which do not depend on `sequence` and `cached`.

    Returns:
        A network from int64 `input_ids` (batch, sequence), and `past_keys_N` and `past_values_N` (batch, key_heads,
        cached, hidden / heads) for every layer N where tokens are cached, to `logits` (batch, 1, vocabulary) of the
        last token, and `keys_N` and `values_N` of all tokens.

    Raises:
        UserError: A number of heads does not divide as it must.
    """
    if hidden % heads or heads % key_heads or (hidden // heads) % 2:
        raise UserError(
            f"Heads must divide the hidden size into even widths, and heads of keys the heads; got hidden size "
            f"{hidden}, {heads} heads and {key_heads} heads of keys; give for example 768, 12 and 4"
        )
    graph = GraphBuilder("llama", seed=seed)
    tokens = graph.input("input_ids", (batch, sequence), integer=True)
    width = hidden // heads
    past = [
        [graph.input(f"past_{kind}_{layer}", (batch, key_heads, cached, width)) for kind in ("keys", "values")]
        if cached
        else []
        for layer in range(layers)
    ]
    # The embedding is the output layer too. With this deviation the logits spread around 1.
    words = graph.normal("embedding", (vocabulary, hidden), deviation=hidden**-0.5)
    x = graph.node("Gather", [words, tokens], shape=(batch, sequence, hidden), axis=0)
    attention = _Heads(heads, key_heads, *_rotation(graph, sequence, cached, width), _mask(graph, sequence, cached))
    state: list[Tensor] = []
    for layer in range(layers):
        x = _layer(graph, x, attention=attention, past=past[layer], intermediate=intermediate, state=state)
    last = [graph.integers([value]) for value in (sequence - 1, sequence, 1)]
    x = graph.node("Slice", [_rms_norm(graph, x), *last], shape=(batch, 1, hidden))
    graph.output(graph.matmul(x, graph.transpose(words, (1, 0))), "logits")
    for place, tensor in enumerate(state):
        graph.output(tensor, f"{('keys', 'values')[place % 2]}_{place // 2}")
    return graph.finish()


def _layer(
    graph: GraphBuilder, x: Tensor, *, attention: _Heads, past: list[Tensor], intermediate: int, state: list[Tensor]
) -> Tensor:
    x = graph.add(x, _attention(graph, _rms_norm(graph, x), heads=attention, past=past, state=state))
    norm = _rms_norm(graph, x)
    gate = _project(graph, norm, intermediate)
    gate = graph.multiply(gate, graph.sigmoid(gate))
    return graph.add(x, _project(graph, graph.multiply(gate, _project(graph, norm, intermediate)), x.shape[-1]))


def _attention(graph: GraphBuilder, x: Tensor, *, heads: _Heads, past: list[Tensor], state: list[Tensor]) -> Tensor:
    """Append attention with grouped queries; `state` gets the keys and values of all tokens."""
    batch, sequence, hidden = x.shape
    width = hidden // heads.queries
    query = _rotate(graph, _split_heads(graph, _project(graph, x, hidden), heads.queries), heads)
    key = _rotate(graph, _split_heads(graph, _project(graph, x, heads.keys * width), heads.keys), heads)
    value = _split_heads(graph, _project(graph, x, heads.keys * width), heads.keys)
    if past:
        key, value = (graph.concat([old, added], axis=2) for old, added in zip(past, (key, value), strict=True))
    state += [key, value]
    key, value = (_repeat(graph, tensor, heads.queries // heads.keys) for tensor in (key, value))
    scores = graph.matmul(query, graph.transpose(key, (0, 1, 3, 2)))
    scores = graph.multiply(scores, graph.scalar(1 / math.sqrt(width)))
    scores = scores if heads.mask is None else graph.add(scores, heads.mask)
    context = graph.transpose(graph.matmul(graph.softmax(scores), value), (0, 2, 1, 3))
    return _project(graph, graph.reshape(context, (batch, sequence, hidden)), hidden, gain=_ATTENTION_GAIN)


def _project(graph: GraphBuilder, x: Tensor, features: int, *, gain: float = 1.0) -> Tensor:
    """Append a fully connected layer without bias."""
    return graph.matmul(x, graph.weight("projection_weight", (x.shape[-1], features), axes=(0,), gain=gain))


def _split_heads(graph: GraphBuilder, x: Tensor, heads: int) -> Tensor:
    batch, sequence, features = x.shape
    return graph.transpose(graph.reshape(x, (batch, sequence, heads, features // heads)), (0, 2, 1, 3))


def _rotate(graph: GraphBuilder, x: Tensor, heads: _Heads) -> Tensor:
    """Append the rotation of pairs of channels by angles that grow with the position."""
    first, second = graph.split(x, 2)
    turned = graph.concat([graph.node("Neg", [second], shape=second.shape), first], axis=3)
    return graph.add(graph.multiply(x, heads.cosine), graph.multiply(turned, heads.sine))


def _rotation(graph: GraphBuilder, sequence: int, cached: int, width: int) -> tuple[Tensor, Tensor]:
    frequencies = _ROTARY_BASE ** -(np.arange(0, width, 2) / width)
    angles = np.outer(np.arange(cached, cached + sequence), np.tile(frequencies, 2))[np.newaxis, np.newaxis]
    cosine, sine = (function(angles).astype(np.float32) for function in (np.cos, np.sin))
    return graph.initializer("cosine", cosine), graph.initializer("sine", sine)


def _mask(graph: GraphBuilder, sequence: int, cached: int) -> Tensor | None:
    if sequence == 1:
        return None  # one token sees all
    is_hidden = 1 - np.tri(sequence, cached + sequence, cached, dtype=np.float32)
    return graph.initializer("causal_mask", (_MASKED * is_hidden)[np.newaxis, np.newaxis])


def _repeat(graph: GraphBuilder, x: Tensor, times: int) -> Tensor:
    """Append the repetition of every head of keys or values for the queries of its group."""
    if times == 1:
        return x
    batch, heads, length, width = x.shape
    shape = (batch, heads, times, length, width)
    grouped = graph.node("Unsqueeze", [x, graph.integers([2])], shape=(batch, heads, 1, length, width))
    repeated = graph.node("Expand", [grouped, graph.integers(shape)], shape=shape)
    return graph.reshape(repeated, (batch, heads * times, length, width))


def _rms_norm(graph: GraphBuilder, x: Tensor) -> Tensor:
    """Append an RMS norm over the last dimension, as primitive operators."""
    shape = (*x.shape[:-1], 1)
    squares = graph.node("Pow", [x, graph.scalar(2.0)], shape=x.shape)
    mean = graph.node("ReduceMean", [squares], shape=shape, axes=[-1], keepdims=1)
    root = graph.node("Sqrt", [graph.add(mean, graph.scalar(_EPSILON))], shape=shape)
    normed = graph.multiply(x, graph.node("Reciprocal", [root], shape=shape))
    return graph.multiply(graph.uniform("rms_norm_scale", x.shape[-1:], low=0.9, high=1.1), normed)
