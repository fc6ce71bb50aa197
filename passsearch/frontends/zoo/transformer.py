"""Transformers for text: BERT, which encodes, and GPT-2, which decodes.

* BERT: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers" (2018). The graph has the operators that
  PyTorch's exporter writes at opset 13 for `BertForQuestionAnswering` in
  `transformers/models/bert/modeling_bert.py`.
* GPT-2: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019). The graph follows
  `GPT2LMHeadModel` in `transformers/models/gpt2/modeling_gpt2.py`, with fully connected layers as in BERT's graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import onnx
from onnx import TensorProto

from passsearch.errors import UserError
from passsearch.frontends.zoo.builder import RELU_GAIN, GraphBuilder, Tensor

__all__ = ["attention", "bert", "encoder_layer", "gelu", "gpt2"]

_MAX_POSITIONS = 512
_GPT2_MAX_POSITIONS = 1024
_SEGMENTS = 2
# The bias that BERT's authors add to masked positions; the lowest float32 would turn a fully masked row into NaN.
_MASKED = -10000.0
# Random attention averages over all tokens; at full strength it would make all tokens equal within a few layers.
_ATTENTION_GAIN = 0.1
_GPT2_EPSILON = 1e-5


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
    _check(hidden=hidden, heads=heads, sequence=sequence, longest=_MAX_POSITIONS)
    graph = GraphBuilder("bert", seed=seed)
    tokens = graph.input("input_ids", (batch, sequence), integer=True)
    attention_mask = graph.input("attention_mask", (batch, sequence), integer=True)
    types = _token_types(graph, tokens, as_input=token_types)
    bias = _attention_bias(graph, attention_mask)
    x = _embed(graph, tokens, types=types, vocabulary=vocabulary, hidden=hidden)
    for _ in range(layers):
        x = encoder_layer(graph, x, bias=bias, heads=heads)
    _question_answering(graph, x)
    return graph.finish()


def gpt2(
    *,
    batch: int = 1,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    sequence: int = 128,
    vocabulary: int = 50257,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build GPT-2 with its language-modelling head; the defaults are GPT-2 small.

    The graph computes all positions at once, without a cache of keys and values.

    Args:
        batch: Number of sequences.
        layers: Number of decoder layers.
        hidden: Width of the decoder, a multiple of `heads`.
        heads: Number of attention heads.
        sequence: Tokens per sequence, at most 1024.
        vocabulary: Number of different tokens.
        seed: Seed of the weights.

    Returns:
        A network from int64 `input_ids` (batch, sequence) to `logits` (batch, sequence, vocabulary).

    Raises:
        UserError: `hidden` is not a multiple of `heads`, or the sequence is too long.
    """
    _check(hidden=hidden, heads=heads, sequence=sequence, longest=_GPT2_MAX_POSITIONS)
    graph = GraphBuilder("gpt2", seed=seed)
    tokens = graph.input("input_ids", (batch, sequence), integer=True)
    # The embedding is the output layer too. With this deviation the logits spread around 1.
    words = graph.normal("embedding", (vocabulary, hidden), deviation=hidden**-0.5)
    places = graph.normal("embedding", (_GPT2_MAX_POSITIONS, hidden), deviation=hidden**-0.5)
    x = graph.add(_gather(graph, words, tokens), _gather(graph, places, _positions(graph, sequence)))
    is_visible = graph.initializer("causal_mask", np.tri(sequence, dtype=np.bool_)[np.newaxis, np.newaxis])
    for _ in range(layers):
        x = _decoder_layer(graph, x, is_visible=is_visible, heads=heads)
    x = graph.layer_norm(x, epsilon=_GPT2_EPSILON)
    graph.output(graph.matmul(x, graph.transpose(words, (1, 0))), "logits")
    return graph.finish()


def _check(*, hidden: int, heads: int, sequence: int, longest: int) -> None:
    if hidden % heads:
        raise UserError(
            f"Hidden size must be a multiple of heads, got {hidden} and {heads}; give for example 768 and 12"
        )
    if not 1 <= sequence <= longest:
        raise UserError(f"Sequence length must be 1 to {longest}, got {sequence}; give for example 128")


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
    positions = _positions(graph, tokens.shape[1])
    words = _look_up(graph, tokens, rows=vocabulary, hidden=hidden)
    segments = _look_up(graph, types, rows=_SEGMENTS, hidden=hidden)
    places = _look_up(graph, positions, rows=_MAX_POSITIONS, hidden=hidden)
    return graph.layer_norm(graph.add(graph.add(words, segments), places))


def _positions(graph: GraphBuilder, sequence: int) -> Tensor:
    return graph.initializer("positions", np.arange(sequence, dtype=np.int64)[np.newaxis])


def _look_up(graph: GraphBuilder, indices: Tensor, *, rows: int, hidden: int) -> Tensor:
    return _gather(graph, graph.normal("embedding", (rows, hidden), deviation=1.0), indices)


def _gather(graph: GraphBuilder, table: Tensor, indices: Tensor) -> Tensor:
    return graph.node("Gather", [table, indices], shape=(*indices.shape, *table.shape[1:]), axis=0)


def encoder_layer(graph: GraphBuilder, x: Tensor, *, bias: Tensor, heads: int) -> Tensor:
    """Append a layer of BERT; the bias is added to the scores of attention."""
    parts = (graph.linear(x, x.shape[-1]) for _ in range(3))
    context = attention(graph, parts, heads=heads, mask=lambda scores: graph.add(scores, bias))
    x = graph.layer_norm(graph.add(context, x))
    intermediate = gelu(graph, graph.linear(x, 4 * x.shape[-1], gain=RELU_GAIN))
    return graph.layer_norm(graph.add(graph.linear(intermediate, x.shape[-1]), x))


def _decoder_layer(graph: GraphBuilder, x: Tensor, *, is_visible: Tensor, heads: int) -> Tensor:
    def mask(scores: Tensor) -> Tensor:
        return graph.node("Where", [is_visible, scores, graph.scalar(_MASKED)], shape=scores.shape)

    norm = graph.layer_norm(x, epsilon=_GPT2_EPSILON)
    parts = graph.split(graph.linear(norm, 3 * x.shape[-1]), 3)
    x = graph.add(attention(graph, parts, heads=heads, mask=mask), x)
    norm = graph.layer_norm(x, epsilon=_GPT2_EPSILON)
    intermediate = _tanh_gelu(graph, graph.linear(norm, 4 * x.shape[-1], gain=RELU_GAIN))
    return graph.add(graph.linear(intermediate, x.shape[-1]), x)


def attention(
    graph: GraphBuilder, parts: Iterable[Tensor], *, heads: int, mask: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Append attention and the layer that joins its heads.

    Args:
        graph: The graph.
        parts: Queries, keys and values, each (batch, sequence, hidden).
        heads: Number of attention heads.
        mask: Appends the mask to scores of shape (batch, heads, sequence, sequence); ``None`` where every token
            attends to all.
    """
    query, key, value = (graph.reshape(part, (*part.shape[:2], heads, part.shape[2] // heads)) for part in parts)
    batch, sequence, _, width = query.shape
    query, value = graph.transpose(query, (0, 2, 1, 3)), graph.transpose(value, (0, 2, 1, 3))
    scores = graph.matmul(query, graph.transpose(key, (0, 2, 3, 1)))
    scores = graph.divide(scores, graph.scalar(math.sqrt(width)))
    context = graph.matmul(graph.softmax(mask(scores) if mask else scores), value)
    merged_heads = graph.reshape(graph.transpose(context, (0, 2, 1, 3)), (batch, sequence, heads * width))
    return graph.linear(merged_heads, heads * width, gain=_ATTENTION_GAIN)


def gelu(graph: GraphBuilder, x: Tensor) -> Tensor:
    """Append x * (1 + erf(x / sqrt(2))) / 2."""
    scaled = graph.divide(x, graph.scalar(math.sqrt(2.0)))
    gate = graph.add(graph.node("Erf", [scaled], shape=x.shape), graph.scalar(1.0))
    return graph.multiply(graph.multiply(x, gate), graph.scalar(0.5))


def _tanh_gelu(graph: GraphBuilder, x: Tensor) -> Tensor:
    """Append x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))."""
    cube = graph.node("Pow", [x, graph.scalar(3.0)], shape=x.shape)
    inner = graph.add(x, graph.multiply(cube, graph.scalar(0.044715)))
    inner = graph.multiply(inner, graph.scalar(math.sqrt(2.0 / math.pi)))
    gate = graph.add(graph.node("Tanh", [inner], shape=x.shape), graph.scalar(1.0))
    return graph.multiply(graph.multiply(x, graph.scalar(0.5)), gate)


def _question_answering(graph: GraphBuilder, x: Tensor) -> None:
    logits = graph.linear(x, 2)
    for part, name in zip(graph.split(logits, 2), ("start_logits", "end_logits"), strict=True):
        scores = graph.node("Squeeze", [part, graph.integers([-1])], shape=x.shape[:2])
        graph.output(scores, name)
