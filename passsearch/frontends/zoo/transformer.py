"""BERT: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers" (2018).

The graph has the operators that PyTorch's exporter writes at opset 13 for `BertForQuestionAnswering` in
`transformers/models/bert/modeling_bert.py`.
"""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto

from passsearch.errors import UserError
from passsearch.frontends.zoo.builder import RELU_GAIN, GraphBuilder, Tensor

__all__ = ["bert"]

_MAX_POSITIONS = 512
_SEGMENTS = 2
# The bias that BERT's authors add to masked positions; the lowest float32 would turn a fully masked row into NaN.
_MASKED = -10000.0
# Random attention averages over all tokens; at full strength it would make all tokens equal within a few layers.
_ATTENTION_GAIN = 0.1


def bert(
    *,
    batch: int = 1,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    sequence: int = 128,
    vocabulary: int = 30522,
    token_types: bool = False,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build BERT with a question-answering head; the defaults are BERT-base.

    Args:
        batch: Number of sequences.
        layers: Number of encoder layers.
        hidden: Width of the encoder, a multiple of `heads`.
        heads: Number of attention heads.
        sequence: Tokens per sequence, at most 512.
        vocabulary: Number of different tokens.
        token_types: True to have `token_type_ids` as an input; otherwise every token has type 0.
        seed: Seed of the weights.

    Returns:
        A network from int64 `input_ids` and `attention_mask`, both (batch, sequence), to `start_logits` and
        `end_logits`, both (batch, sequence).

    Raises:
        UserError: `hidden` is not a multiple of `heads`, or the sequence is too long.
    """
    _check(hidden=hidden, heads=heads, sequence=sequence)
    graph = GraphBuilder("bert", seed=seed)
    tokens = graph.input("input_ids", (batch, sequence), integer=True)
    attention_mask = graph.input("attention_mask", (batch, sequence), integer=True)
    types = _token_types(graph, tokens, as_input=token_types)
    bias = _attention_bias(graph, attention_mask)
    x = _embed(graph, tokens, types=types, vocabulary=vocabulary, hidden=hidden)
    for _ in range(layers):
        x = _encoder_layer(graph, x, bias=bias, heads=heads)
    _question_answering(graph, x)
    return graph.finish()


def _check(*, hidden: int, heads: int, sequence: int) -> None:
    if hidden % heads:
        raise UserError(
            f"Hidden size must be a multiple of heads, got {hidden} and {heads}; give for example 768 and 12"
        )
    if not 1 <= sequence <= _MAX_POSITIONS:
        raise UserError(f"Sequence length must be 1 to {_MAX_POSITIONS}, got {sequence}; give for example 128")


def _token_types(graph: GraphBuilder, tokens: Tensor, *, as_input: bool) -> Tensor:
    if as_input:
        return graph.input("token_type_ids", tokens.shape, integer=True)
    return graph.initializer("token_types", np.zeros(tokens.shape, dtype=np.int64))


def _attention_bias(graph: GraphBuilder, attention_mask: Tensor) -> Tensor:
    """Append (1 - mask) * -10000 in shape (batch, 1, 1, sequence)."""
    batch, sequence = attention_mask.shape
    rows = graph.node("Unsqueeze", [attention_mask, graph.integers([1])], shape=(batch, 1, sequence))
    mask = graph.node("Unsqueeze", [rows, graph.integers([2])], shape=(batch, 1, 1, sequence))
    mask = graph.node("Cast", [mask], shape=mask.shape, to=int(TensorProto.FLOAT))
    return graph.multiply(graph.subtract(graph.scalar(1.0), mask), graph.scalar(_MASKED))


def _embed(graph: GraphBuilder, tokens: Tensor, *, types: Tensor, vocabulary: int, hidden: int) -> Tensor:
    positions = graph.initializer("positions", np.arange(tokens.shape[1], dtype=np.int64)[np.newaxis])
    words = _look_up(graph, tokens, rows=vocabulary, hidden=hidden)
    segments = _look_up(graph, types, rows=_SEGMENTS, hidden=hidden)
    places = _look_up(graph, positions, rows=_MAX_POSITIONS, hidden=hidden)
    return graph.layer_norm(graph.add(graph.add(words, segments), places))


def _look_up(graph: GraphBuilder, indices: Tensor, *, rows: int, hidden: int) -> Tensor:
    table = graph.normal("embedding", (rows, hidden), deviation=1.0)
    return graph.node("Gather", [table, indices], shape=(*indices.shape, hidden), axis=0)


def _encoder_layer(graph: GraphBuilder, x: Tensor, *, bias: Tensor, heads: int) -> Tensor:
    x = graph.layer_norm(graph.add(_attention(graph, x, bias=bias, heads=heads), x))
    intermediate = _gelu(graph, graph.linear(x, 4 * x.shape[-1], gain=RELU_GAIN))
    return graph.layer_norm(graph.add(graph.linear(intermediate, x.shape[-1]), x))


def _attention(graph: GraphBuilder, x: Tensor, *, bias: Tensor, heads: int) -> Tensor:
    batch, sequence, hidden = x.shape
    head_shape = (batch, sequence, heads, hidden // heads)
    query, key, value = (graph.reshape(graph.linear(x, hidden), head_shape) for _ in range(3))
    query, value = graph.transpose(query, (0, 2, 1, 3)), graph.transpose(value, (0, 2, 1, 3))
    logits = graph.matmul(query, graph.transpose(key, (0, 2, 3, 1)))
    logits = graph.divide(logits, graph.scalar(math.sqrt(hidden // heads)))
    context = graph.matmul(graph.softmax(graph.add(logits, bias)), value)
    merged_heads = graph.reshape(graph.transpose(context, (0, 2, 1, 3)), x.shape)
    return graph.linear(merged_heads, hidden, gain=_ATTENTION_GAIN)


def _gelu(graph: GraphBuilder, x: Tensor) -> Tensor:
    """Append x * (1 + erf(x / sqrt(2))) / 2."""
    scaled = graph.divide(x, graph.scalar(math.sqrt(2.0)))
    gate = graph.add(graph.node("Erf", [scaled], shape=x.shape), graph.scalar(1.0))
    return graph.multiply(graph.multiply(x, gate), graph.scalar(0.5))


def _question_answering(graph: GraphBuilder, x: Tensor) -> None:
    logits = graph.linear(x, 2)
    for part, name in zip(graph.split(logits, 2), ("start_logits", "end_logits"), strict=True):
        scores = graph.node("Squeeze", [part, graph.integers([-1])], shape=x.shape[:2])
        graph.output(scores, name)
