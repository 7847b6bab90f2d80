"""The graphs of a model: its encoder and its decoder, or a classifier, with the names and sizes that optimum gives.

The decoder has no branch: what of the source is not in its cache yet is projected, which is all of it at the first step
and nothing later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pellucid.config import ModelConfig
from pellucid.interop import onnx_layers as layers
from pellucid.interop.onnx_graph import Graph, Value
from pellucid.interop.onnx_layers import Layers, Sight
from pellucid.model.classifier import Classifier, FirstPooling, MaxPooling
from pellucid.model.decoder import DecoderLayer
from pellucid.model.encoder import Encoder, EncoderLayer
from pellucid.model.transformer import Transformer
from pellucid.nn.embeddings import Embedding, OutputBias

BATCH, SOURCE, TARGET = "batch_size", "encoder_sequence_length", "decoder_sequence_length"
PAST, TOTAL, PAST_SOURCE = "past_decoder_sequence_length", "total_decoder_sequence_length", "past_encoder_length"
IDS = np.int64


def encoder(model: Transformer, config: ModelConfig, rows: int) -> Graph:
    """input_ids and attention_mask [B, S] → last_hidden_state [B, S, D], of at most `rows` positions."""
    of = _layers("encoder", model, config, rows)
    memory, _ = _encoded(of, model.source_embedding, model.encoder)
    of.graph.output("last_hidden_state", memory, [BATCH, SOURCE, config.d_model])
    return of.graph


def classifier(model: Classifier, config: ModelConfig, rows: int) -> Graph:
    """input_ids and attention_mask [B, S] → logits [B, classes]."""
    of = _layers("classifier", model, config, rows)
    op, (memory, real) = of.graph.op, _encoded(of, model.source_embedding, model.encoder)
    kept = real.cast(of.graph.dtype).unsqueeze(2)  # [B, S, 1]
    if isinstance(model.pooling, MaxPooling):
        shown = op("Where", real.unsqueeze(2), memory, float(np.finfo(of.graph.dtype).min))
        pooled = op("ReduceMax", shown, of.graph.integers(1)) * op("Min", kept.sum(1), 1.0)
    elif isinstance(model.pooling, FirstPooling):
        earlier = op("CumSum", kept, 1, attributes={"exclusive": 1})
        pooled = (memory * kept * op("Equal", earlier, 0.0).cast(of.graph.dtype)).sum(1)
    else:
        pooled = (memory * kept).sum(1) / op("Max", kept.sum(1), 1.0)
    pooled = op("Squeeze", pooled, of.graph.integers(1))
    inner = layers.activation(config.head_activation, layers.linear(of, model.head_1, pooled))
    of.graph.output("logits", layers.linear(of, model.head_2, inner), [BATCH, model.head_2.out_features])
    return of.graph


def decoder(model: Transformer, config: ModelConfig, rows: int) -> Graph:
    """input_ids [B, T], encoder_attention_mask [B, S], encoder_hidden_states [B, S, D] and what the call before gave as
    present → logits [B, T, V], and present: of each layer the keys and values of the target so far and of the source.
    """
    of = _layers("decoder", model, config, rows)
    graph = of.graph
    tokens = graph.input("input_ids", IDS, [BATCH, TARGET])
    real = graph.input("encoder_attention_mask", IDS, [BATCH, SOURCE]).cast(np.bool_)
    memory = graph.input("encoder_hidden_states", graph.dtype, [BATCH, SOURCE, config.d_model])
    past = [[graph.input(f"past_key_values.{name}", graph.dtype, [BATCH, config.n_heads, length, width])
             for name, length, width in _cache(layer, i, PAST, PAST_SOURCE)]
            for i, layer in enumerate(model.decoder.stack())]
    seen, of_source = past[0][0].length(2), past[0][2].length(2)
    so_far = _counted(seen + tokens.length(1))
    here = so_far.between(seen, seen + tokens.length(1), 1)
    rest = memory.between(of_source, memory.length(1), 1)
    step = Step(layers.see(of, here, so_far, None), Sight(real.unsqueeze(1, 2)), rest)
    y = layers.embed(of, model.decoder.position, _embedded(of, model.target_embedding, tokens), here)
    y = layers.norm(of, model.decoder.embedding_norm, y)
    caches = []
    for layer, known in zip(model.decoder.stack(), past, strict=True):
        y, cache = _decoder_layer(of, layer, y, known, step)
        caches.append(cache)
    y = layers.norm(of, model.decoder.closing_norm, y)
    graph.output("logits", _logits(of, model, y), [BATCH, TARGET, len(model.output.weight)])
    for i, (layer, cache) in enumerate(zip(model.decoder.stack(), caches, strict=True)):
        for (name, length, width), value in zip(_cache(layer, i, TOTAL, SOURCE), cache, strict=True):
            graph.output(f"present.{name}", value, [BATCH, config.n_heads, length, width])
    return graph


class Step(NamedTuple):
    """What all layers of the decoder see: of the target, of the source, and what of the source is new, [B, S', D]."""

    of_target: Sight
    of_source: Sight
    rest: Value


def _decoder_layer(of: Layers, layer: DecoderLayer, y: Value, past: Sequence[Value],
                   step: Step) -> tuple[Value, list[Value]]:
    """y [B, T, D] → [B, T, D], and what the layer remembers: keys and values of the target, then of the source."""
    def longer(known: Sequence[Value], new: Sequence[Value]) -> tuple[Value, Value]:
        keys, values = (of.graph.concat(both, 2) for both in zip(known, new, strict=True))
        return keys, values

    target: list[Value] = []

    def self_attention(y: Value) -> Value:
        new = layers.keys_and_values(of, layer.self_attention, y, step.of_target.query_positions)
        target.extend(longer(past[:2], new))
        return layers.attention(of, layer.self_attention, y, (target[0], target[1]), step.of_target)

    source = longer(past[2:], layers.keys_and_values(of, layer.cross_attention, step.rest, None))
    y = layers.residual(of, layer.residual_1, y, self_attention)
    y = layers.residual(of, layer.residual_2, y, lambda y: layers.attention(of, layer.cross_attention, y, source,
                                                                            step.of_source))
    y = layers.residual(of, layer.residual_3, y, lambda y: layers.feed_forward(of, layer.feed_forward, y))
    return y, [*target, *source]


def _layers(name: str, model: Transformer | Classifier, config: ModelConfig, rows: int) -> Layers:
    graph = Graph(name, model.source_embedding.weight.detach().numpy().dtype)
    return Layers(graph, {module: name for name, module in model.named_modules()}, config, rows)


def _encoded(of: Layers, embedding: Embedding, stack: Encoder) -> tuple[Value, Value]:
    """The memory [B, S, D] of what is given, and which tokens are real [B, S]."""
    graph = of.graph
    ids, mask = (graph.input(name, IDS, [BATCH, SOURCE]) for name in ("input_ids", "attention_mask"))
    real = mask.cast(np.bool_)
    positions = graph.op("Max", graph.op("CumSum", mask, 1) - 1, 0)  # over the real ones, wherever the padding lies
    sight = layers.see(of, positions, positions, real)
    x = layers.embed(of, stack.position, _embedded(of, embedding, ids), positions)
    x = layers.norm(of, stack.embedding_norm, x)
    for layer in stack.stack():
        x = _encoder_layer(of, layer, x, sight)
    return layers.norm(of, stack.closing_norm, x), real


def _encoder_layer(of: Layers, layer: EncoderLayer, x: Value, sight: Sight) -> Value:
    def self_attention(x: Value) -> Value:
        known = layers.keys_and_values(of, layer.self_attention, x, sight.query_positions)
        return layers.attention(of, layer.self_attention, x, known, sight)

    x = layers.residual(of, layer.residual_1, x, self_attention)
    return layers.residual(of, layer.residual_2, x, lambda x: layers.feed_forward(of, layer.feed_forward, x))


def _embedded(of: Layers, embedding: Embedding, ids: Value) -> Value:
    """√D·E[x]"""
    return of.graph.op("Gather", of.weight(embedding, "weight"), ids) * embedding.scale


def _logits(of: Layers, model: Transformer, y: Value) -> Value:
    """[B, T, D] → [B, T, V], by the matrix as it lies in memory, which the embedding may read too."""
    size, width = model.output.weight.shape
    shape = of.graph.concat([y.length(0), y.length(1), of.graph.integers(size)], 0)
    flat = of.graph.op("Gemm", y.reshape(-1, width), of.weight(model.output, "weight"), attributes={"transB": 1})
    logits = of.graph.op("Reshape", flat, shape)
    is_biased = isinstance(model.output_bias, OutputBias)
    return logits + of.weight(model.output_bias, "bias") if is_biased else logits


def _counted(length: Value) -> Value:
    """0, 1, 2 … below length [1]: [1, length]."""
    graph = length.graph
    return graph.op("Range", graph.number(0), graph.op("Squeeze", length), graph.number(1)).unsqueeze(0)


def _cache(layer: DecoderLayer, i: int, target: str, source: str) -> list[tuple[str, str, int]]:
    """The names, lengths and widths of what layer i remembers, in the order that optimum reads."""
    return [(f"{i}.{side}.{part}", length, projection.out_features // module.n_heads)
            for side, length, module in (("decoder", target, layer.self_attention),
                                         ("encoder", source, layer.cross_attention))
            for part, projection in (("key", module.key), ("value", module.value))]
