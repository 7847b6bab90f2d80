"""Models of the Hugging Face Hub: ``hub:owner/name`` or ``hub:owner/name@revision``, kept in the hub's own cache."""

import re
from pathlib import Path

from pellucid.data.hub import PREFIX
from pellucid.errors import CheckpointError, ConfigError, DataError, UserError
from pellucid.interop.reading import weight_files

_ADDRESS = re.compile(r"hub:(?P<name>[^/@\s]+/[^/@\s]+)(?:@(?P<revision>\w[\w.-]*(?:/\w[\w.-]*)*))?")
_NEEDED = ("config.json", "generation_config.json", "tokenizer*.json", "special_tokens_map.json", "added_tokens.json",
           "vocab.json", "vocab.txt", "merges.txt", "*.spm", "*.model", "model*.safetensors",
           "model.safetensors.index.json")


def snapshot(address: str) -> Path:
    """The folder of a model: no more of it than an import needs, downloaded where the cache has it not.

    huggingface_hub's settings hold: HF_HOME or HF_HUB_CACHE for the cache, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE. What
    was interrupted goes on when it is asked for again.

    Raises:
        ConfigError: the address is malformed; huggingface_hub is not installed.
        CheckpointError: the repository has no safetensors.
        DataError: no network, no such repository or revision, a gated one, a full disk.
    """
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ImportError as error:
        raise ConfigError("reading from the Hub needs the package huggingface_hub", where=address,
                          fix="pip install 'pellucid[interop]'") from error
    match = _ADDRESS.fullmatch(address)
    malformed = ConfigError("this is no address of a model", where=address[:100],
                            fix=f"write {PREFIX}owner/name or {PREFIX}owner/name@revision")
    if match is None:
        raise malformed
    try:
        folder = Path(huggingface_hub.snapshot_download(match["name"], revision=match["revision"],
                                                        allow_patterns=list(_NEEDED), ignore_patterns=["*/*"]))
    except errors.HFValidationError as error:
        raise malformed from error
    except (errors.HTTPError, errors.EntryNotFoundError, OSError) as error:  # type: ignore[attr-defined]
        raise _meaning(error, address) from error
    try:
        weight_files(folder)
    except CheckpointError as error:
        raise CheckpointError("this model has no safetensors there", where=address, why=error.what,
                              fix="its pull requests may have them (@refs/pr/1); or convert it where it is trusted: "
                                  "AutoModel.from_pretrained(…).save_pretrained(…)") from error
    return folder


def _meaning(error: Exception, address: str) -> UserError:
    """What huggingface_hub raises, in words."""
    from huggingface_hub import errors

    why = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if isinstance(error, errors.GatedRepoError):
        return DataError("this model is gated", where=address, why="its owner asks who downloads it",
                         fix="accept its terms on its page, and set HF_TOKEN to a token of your account")
    if isinstance(error, errors.RevisionNotFoundError):
        return DataError("the model has no such revision", where=address)
    if isinstance(error, errors.RepositoryNotFoundError):
        return DataError("there is no such model, or it is private", where=address, why=why,
                         fix="check the owner and the name; for a private one set HF_TOKEN")
    return DataError("the model cannot be downloaded", where=address, why=why,
                     fix="check the network and the disk, and run it again: what is here already is kept")
