"""The peers, each at its best settings: `build(name, model)` gives a module whose forward is the loss of a batch.

What they share: the same sizes, tied embeddings where there is a decoder, sinusoidal positions, dropout on the
sub-layers' outputs and on the embeddings and nowhere else where that can be chosen, label smoothing 0.1, AdamW by
torch's fused kernel, gradients clipped at norm 1. JoeyNMT runs in an environment of its own, so this file imports
nothing of ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, BOS = 0, 2
SMOOTHING = 0.1


def shifted(target: Tensor) -> Tensor:
    """The decoder's input: the target moved one place to the right behind bos."""
    return torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)


def token_loss(logits: Tensor, target: Tensor) -> Tensor:
    """The mean label-smoothed cross-entropy over real tokens, by torch's own function."""
    return F.cross_entropy(logits.flatten(0, 1).float(), target.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING)


def sinusoids(length: int, width: int) -> Tensor:
    """Section 3.5 of the paper, as a table."""
    angles = torch.arange(length)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class Embed(nn.Module):
    """√D·E[x] + PE, then dropout."""

    def __init__(self, m: dict[str, Any], length: int = 1024) -> None:
        super().__init__()
        self.tokens = nn.Embedding(m["vocabulary"], m["d_model"])
        nn.init.normal_(self.tokens.weight, 0, m["d_model"] ** -0.5)
        self.register_buffer("positions", sinusoids(length, m["d_model"]))
        self.dropout = nn.Dropout(m["dropout"])

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) * math.sqrt(self.tokens.embedding_dim)
        return self.dropout(x + self.positions[: ids.shape[1]])


def drop_outputs_only(stack: nn.Module) -> None:
    """Takes torch's dropout on attention weights and inside feed-forward layers away: ours has none there, and the
    fused attention kernel of CPUs runs without it alone."""
    for module in stack.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
        elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            module.dropout = nn.Identity()


class TorchTransformer(nn.Module):
    """torch.nn.Transformer, pre-norm, with tied embeddings."""

    def __init__(self, m: dict[str, Any]) -> None:
        super().__init__()
        self.embed = Embed(m)
        self.transformer = nn.Transformer(m["d_model"], m["n_heads"], m["encoder_layers"], m["decoder_layers"],
                                          m["d_ff"], m["dropout"], batch_first=True, norm_first=True)
        drop_outputs_only(self.transformer)

    def forward(self, source: Tensor, target: Tensor, source_padding: Tensor | None) -> Tensor:
        causal = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool, device=target.device).triu(1)
        hidden = self.transformer(self.embed(source), self.embed(shifted(target)), tgt_mask=causal,
                                  src_key_padding_mask=source_padding, memory_key_padding_mask=source_padding,
                                  tgt_is_causal=True)
        return token_loss(F.linear(hidden, self.embed.tokens.weight), target)


class TorchClassifier(nn.Module):
    """torch.nn.TransformerEncoder, the mean over real tokens, and a two-layer head."""

    def __init__(self, m: dict[str, Any]) -> None:
        super().__init__()
        self.embed = Embed(m)
        layer = nn.TransformerEncoderLayer(m["d_model"], m["n_heads"], m["d_ff"], m["dropout"], batch_first=True,
                                           norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, m["encoder_layers"], nn.LayerNorm(m["d_model"]),
                                             enable_nested_tensor=False)
        drop_outputs_only(self.encoder)
        self.head = nn.Sequential(nn.Linear(m["d_model"], m["d_model"]), nn.Tanh(), nn.Dropout(m["dropout"]),
                                  nn.Linear(m["d_model"], m["classes"]))

    def forward(self, source: Tensor, target: Tensor, source_padding: Tensor | None) -> Tensor:
        memory = self.encoder(self.embed(source), src_key_padding_mask=source_padding)
        if source_padding is None:
            pooled = memory.mean(1)
        else:
            real = (~source_padding)[..., None].to(memory.dtype)
            pooled = (memory * real).sum(1) / real.sum(1)
        return F.cross_entropy(self.head(pooled).float(), target[:, 0], label_smoothing=SMOOTHING)


class Marian(nn.Module):
    """transformers' MarianMT: post-norm, sinusoidal, tied."""

    def __init__(self, m: dict[str, Any]) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        self.model = MarianMTModel(MarianConfig(
            vocab_size=m["vocabulary"], d_model=m["d_model"], encoder_layers=m["encoder_layers"],
            decoder_layers=m["decoder_layers"], encoder_attention_heads=m["n_heads"],
            decoder_attention_heads=m["n_heads"], encoder_ffn_dim=m["d_ff"], decoder_ffn_dim=m["d_ff"],
            activation_function="relu", dropout=m["dropout"], attention_dropout=0.0, activation_dropout=0.0,
            max_position_embeddings=1024, scale_embedding=True, pad_token_id=PAD, eos_token_id=3, bos_token_id=BOS,
            decoder_start_token_id=BOS, use_cache=False, attn_implementation="sdpa"))
        nn.init.normal_(self.model.model.shared.weight, 0, m["d_model"] ** -0.5)

    def forward(self, source: Tensor, target: Tensor, source_padding: Tensor | None) -> Tensor:
        mask = None if source_padding is None else (~source_padding).long()
        logits = self.model(input_ids=source, attention_mask=mask, decoder_input_ids=shifted(target)).logits
        return token_loss(logits, target)


class XTransformers(nn.Module):
    """x-transformers: flash attention, pre-norm, tied; its projections have no biases (0.2 % of the parameters), and
    its dropout is inside the feed-forward layers, where it has a place for it."""

    def __init__(self, m: dict[str, Any]) -> None:
        super().__init__()
        from x_transformers import Decoder, Encoder, TransformerWrapper

        kind = {"dim": m["d_model"], "heads": m["n_heads"], "attn_dim_head": m["d_model"] // m["n_heads"],
                "attn_flash": True, "ff_mult": m["d_ff"] / m["d_model"], "ff_dropout": m["dropout"]}
        common = {"num_tokens": m["vocabulary"], "max_seq_len": 1024, "scaled_sinu_pos_emb": True,
                  "emb_dropout": m["dropout"]}
        self.encoder = TransformerWrapper(**common, attn_layers=Encoder(depth=m["encoder_layers"], **kind),
                                          return_only_embed=True)
        self.decoder = TransformerWrapper(**common, tie_embedding=True, attn_layers=Decoder(
            depth=m["decoder_layers"], cross_attend=True, **kind))
        self.encoder.token_emb = self.decoder.token_emb
        nn.init.normal_(self.decoder.token_emb.emb.weight, 0, m["d_model"] ** -0.5)

    def forward(self, source: Tensor, target: Tensor, source_padding: Tensor | None) -> Tensor:
        mask = None if source_padding is None else ~source_padding
        memory = self.encoder(source, mask=mask, return_embeddings=True)
        return token_loss(self.decoder(shifted(target), context=memory, context_mask=mask), target)


def joeynmt_vocabulary(size: int) -> Any:
    """JoeyNMT's vocabulary object; its padding is id 1, its unknown word 0."""
    from types import SimpleNamespace

    from joeynmt.vocabulary import Vocabulary

    special = SimpleNamespace(pad_token="<pad>", unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_id=1,
                              unk_id=0, bos_id=BOS, eos_id=3, sep_token=None, sep_id=None, lang_tags=[])
    return Vocabulary([f"w{i}" for i in range(size - 4)], special)


class JoeyNMT(nn.Module):
    """JoeyNMT's model and loss, in its own environment; pre-norm, tied."""

    def __init__(self, m: dict[str, Any]) -> None:
        super().__init__()
        from joeynmt.model import build_model

        words = joeynmt_vocabulary(m["vocabulary"])
        part = {"type": "transformer", "num_heads": m["n_heads"], "hidden_size": m["d_model"], "ff_size": m["d_ff"],
                "embeddings": {"embedding_dim": m["d_model"], "scale": True, "dropout": m["dropout"]},
                "dropout": m["dropout"], "layer_norm": "pre"}
        self.model = build_model({"tied_embeddings": True, "tied_softmax": True, "initializer": "xavier_uniform",
                                  "embed_initializer": "normal", "embed_init_weight": m["d_model"] ** -0.5,
                                  "encoder": {**part, "num_layers": m["encoder_layers"]},
                                  "decoder": {**part, "num_layers": m["decoder_layers"]}}, words, words)
        self.model.loss_function = ("crossentropy", SMOOTHING)

    def forward(self, source: Tensor, target: Tensor, source_padding: Tensor | None) -> Tensor:
        source, target = source.masked_fill(source == PAD, 1), target.masked_fill(target == PAD, 1)  # its padding is 1
        mask = (source != 1)[:, None]
        loss, *_ = self.model(return_type="loss", src=source, trg_input=shifted(target), trg=target, src_mask=mask,
                              trg_mask=(target != 1)[:, None], src_length=mask.sum(-1)[:, 0])
        return loss / (target != 1).sum()


PEERS: dict[str, Callable[[dict[str, Any]], nn.Module]] = {
    "nn.Transformer": TorchTransformer, "marian": Marian, "x-transformers": XTransformers, "joeynmt": JoeyNMT}


def build(name: str, model: dict[str, Any]) -> nn.Module:
    """The peer of this name with the sizes of `model`."""
    return TorchClassifier(model) if model["classes"] else PEERS[name](model)
