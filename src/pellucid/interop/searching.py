"""How a model of transformers is searched: as our search, as far as that is the same, and what of it is left out."""

from collections.abc import Mapping
from typing import Any

from pellucid.config import DecodeConfig, ModelConfig
from pellucid.data.tokenizers.interface import SPECIALS
from pellucid.interop.vocabulary import Rows

# What is not here, and the value that changes nothing.
_OTHER_SEARCH: dict[str, object] = {
    "do_sample": False, "repetition_penalty": 1.0, "encoder_repetition_penalty": 1.0, "encoder_no_repeat_ngram_size": 0,
    "num_beam_groups": 1, "diversity_penalty": 0.0, "penalty_alpha": 0.0, "guidance_scale": 1,
    "num_return_sequences": 1, "exponential_decay_length_penalty": None, "bad_words_ids": [], "suppress_tokens": [],
    "begin_suppress_tokens": [], "forced_decoder_ids": [], "force_words_ids": [], "sequence_bias": [],
    "stop_strings": []}


def decode_of(told: Mapping[str, Any], model: ModelConfig) -> DecodeConfig:
    """Their search, as far as ours is the same; lengths are bounded by learned positions, and theirs count the token
    that an output begins with."""
    def number(key: str, default: int, most: int) -> int:
        value = told.get(key)
        return min(value if type(value) is int and value > 0 else default, most)

    most = model.max_length if model.position == "learned" else 10_000
    longest = max(number("max_new_tokens", number("max_length", 257, most + 1) - 1, most), 1)
    return DecodeConfig(beam_size=number("num_beams", 1, 1000), length_penalty=0.0, max_length=longest,
                        min_length=number("min_new_tokens", number("min_length", 1, longest) - 1, longest - 1),
                        no_repeat_ngram=number("no_repeat_ngram_size", 0, longest))


def left_out(told: Mapping[str, Any], rows: Rows) -> list[str]:
    """What their search asks for and ours does not do. Padding and start are said by neither."""
    pad, _, start, end = rows.order[:len(SPECIALS)]
    silent = [each for i in {pad, start} - {end} for each in (i, [i])]
    told = {key: [each for each in value if each not in silent] if isinstance(value, list) else value
            for key, value in told.items()}
    other = [key for key, plain in _OTHER_SEARCH.items() if told.get(key, plain) != plain]
    if told.get("eos_token_id", end) not in (end, [end]):
        other.append("eos_token_id")
    found = [f"{key} {told[key]}"[:60] for key in other]
    if told.get("num_beams", 1) != 1:
        found += [f"length_penalty {told.get('length_penalty', 1.0)}"[:60]] * bool(told.get("length_penalty", 1.0))
        found += ["early_stopping true"] * (told.get("early_stopping") is True)  # ours looks for what is still better
    return found
