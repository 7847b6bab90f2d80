"""Models of the Hugging Face Hub: ``hub:owner/name`` or ``hub:owner/name@revision``, a folder of the hub's own cache.

The cache is laid out as huggingface_hub has it, so that each finds what the other has downloaded:
``models--owner--name/refs/REVISION`` holds the commit, and ``snapshots/COMMIT/`` the files.
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pellucid.data.hub import PREFIX
from pellucid.errors import CheckpointError, ConfigError, DataError, OutputError
from pellucid.files import free_bytes, write_text
from pellucid.interop.download import Refused, Remote, Unreachable, fetch, is_safe, read_json
from pellucid.interop.reading import INDEX, no_weights, weight_files
from pellucid.runs.format import WEIGHTS

_WORD = r"[A-Za-z0-9_](?:[A-Za-z0-9_]|[.-](?![.-]))*"  # the hub has no names with "..", "--", or a point in front
_ADDRESS = re.compile(rf"hub:(?P<owner>{_WORD})/(?P<name>{_WORD})(?:@(?P<revision>{_WORD}(?:/{_WORD})*))?")
_COMMIT = re.compile(r"[A-Za-z0-9]{1,64}")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")  # names of files
_SMALL = ("config.json", "generation_config.json", "tokenizer*.json", "special_tokens_map.json", "added_tokens.json",
          "vocab.json", "vocab.txt", "merges.txt", "*.spm", "*.model")
_TOKENIZERS = ("tokenizer.json", "*.spm", "sentencepiece.bpe.model")
_PLAIN_DIGEST = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")
_YES = ("1", "ON", "YES", "TRUE")


@dataclass(frozen=True)
class Address:
    """A model of the hub, at a branch, a tag or a commit."""

    name: str
    revision: str

    def __str__(self) -> str:
        return f"{PREFIX}{self.name}" + (f"@{self.revision}" if self.revision != "main" else "")


def read_address(text: str) -> Address:
    """What ``hub:owner/name`` or ``hub:owner/name@revision`` names.

    Raises:
        ConfigError: it is not written so.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or len(text) > 300:
        raise ConfigError("this is no address of a model", where=text[:100],
                          fix="write hub:owner/name or hub:owner/name@revision")
    return Address(f"{match['owner']}/{match['name']}", match["revision"] or "main")


def snapshot(address: Address, tell: Callable[[str], None]) -> Path:
    """The folder of a model: that in the cache, without a network, or what is missing of it downloaded.

    HF_HUB_CACHE or HF_HOME says where the cache is, HF_ENDPOINT which server is asked, HF_TOKEN who asks, and
    HF_HUB_OFFLINE that none is.

    Args:
        tell: is told what is done.

    Raises:
        ConfigError: HF_ENDPOINT is not https.
        CheckpointError: the repository has no safetensors.
        DataError: no network, no such repository or revision, a gated one; files that are not what was announced.
        OutputError: disk full, no permission.
    """
    home = _cache() / f"models--{address.name.replace('/', '--')}"
    known = _known(home, address.revision)
    if known is not None and _is_whole(known):
        return known
    try:
        return _download(address, home, tell)
    except Unreachable as error:
        if known is None:
            raise
        tell(f"{address} cannot be completed: {error.what} ({error.why})")
        return known  # what is missing in it will be named


def _cache() -> Path:
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()


def _known(home: Path, revision: str) -> Path | None:
    """The folder of a revision, where the cache has one."""
    try:
        commit = (home / "refs" / revision).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        commit = revision
    folder = home / "snapshots" / commit
    return folder if _COMMIT.fullmatch(commit) and folder.is_dir() else None


def _is_whole(folder: Path) -> bool:
    """Whether there is all that an import needs: a cache may hold some of a model's files."""
    try:
        files = weight_files(folder)
    except CheckpointError:
        return False
    return all(path.is_file() for path in (folder / "config.json", *files)) and any(
        any(folder.glob(pattern)) for pattern in _TOKENIZERS)


def _download(address: Address, home: Path, tell: Callable[[str], None]) -> Path:
    """Completes a snapshot, its weights last, and then lets the revision lead to it."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in _YES:
        raise Unreachable("there is no answer", where=str(address), why="HF_HUB_OFFLINE says that no server is asked",
                          fix=f"put the model below {_cache()} elsewhere, or unset HF_HUB_OFFLINE")
    endpoint, token = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/"), os.environ.get(
        "HF_TOKEN", "").strip()
    if not is_safe(endpoint):
        raise ConfigError("HF_ENDPOINT is not https", where=endpoint[:200])
    try:
        url = f"{endpoint}/api/models/{address.name}/revision/{quote(address.revision, safe='')}?blobs=true"
        commit, files = _listing(read_json(url, token), url)
        folder = home / "snapshots" / commit
        for remote in _wanted(files, folder, str(address)):
            if (folder / remote.name).is_file() and (folder / remote.name).stat().st_size == remote.bytes:
                continue
            if remote.bytes > (free := free_bytes(home)):
                raise OutputError(f"{remote.name} has {remote.bytes:,} bytes", where=str(home),
                                  why=f"{free:,} bytes are free there", fix="free some space, or set HF_HUB_CACHE")
            tell(f"{address}: {remote.name}, {remote.bytes:,} bytes")
            url = f"{endpoint}/{address.name}/resolve/{commit}/{remote.name}"
            fetch(url, remote, folder / remote.name, token, tell)
    except Refused as error:
        raise _refusal(address, error, token) from error
    if address.revision != commit:
        write_text(home / "refs" / address.revision, commit)
    return folder


def _listing(answer: Any, url: str) -> tuple[str, dict[str, Remote]]:
    """The commit, and the files beside config.json by their names."""
    try:
        files = {}
        for one in answer["siblings"]:
            name, large = one["rfilename"], one.get("lfs") or {}
            if not isinstance(name, str) or not _PLAIN.fullmatch(name):
                continue  # in a folder, or a name that nobody needs
            digest = large.get("sha256") or one.get("blobId")
            if type(one["size"]) is not int or one["size"] < 0 or (
                    digest is not None and not _PLAIN_DIGEST.fullmatch(digest)):
                raise ValueError(f"what it says of {name} is not a size and a digest")
            files[name] = Remote(name, one["size"], digest)
        if not _COMMIT.fullmatch(answer["sha"]):
            raise ValueError("sha is no commit")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError("the server's list of files is damaged", where=url, why=str(error)[:200]) from error
    return answer["sha"], files


def _wanted(files: dict[str, Remote], folder: Path, where: str) -> Iterator[Remote]:
    """The files that are needed, the weights last; the index of their parts is there when these are asked for."""
    if WEIGHTS not in files and INDEX not in files:
        raise no_weights(files, where)
    yield from (remote for name, remote in files.items() if any(fnmatch(name, pattern) for pattern in _SMALL))
    if WEIGHTS in files:
        yield files[WEIGHTS]
        return
    yield files[INDEX]
    for path in weight_files(folder):
        if path.name not in files or not path.name.endswith(".safetensors"):
            raise CheckpointError("the index of the weights is damaged", where=where,
                                  why=f"it names {path.name[:80]!r}, which is no such file of the repository")
        yield files[path.name]


def _refusal(address: Address, error: Refused, token: str) -> DataError:
    """What a refusal of the hub means."""
    if error.code == "GatedRepo" or error.status == 403:
        return DataError("this model is gated", where=str(address), why="its owner asks who downloads it",
                         fix="accept its terms on its page, and set HF_TOKEN to a token of your account")
    if error.code == "RevisionNotFound":
        return DataError(f"the model has no revision {address.revision}", where=str(address))
    if error.status in (401, 404):
        private = "HF_TOKEN may not see it" if token else "it is private, and HF_TOKEN is not set"
        return DataError("there is no such model", where=str(address), why=f"the server answers {error.status}; or "
                         f"{private}", fix="check the owner and the name")
    return DataError("the server refuses", where=str(address), why=f"it answers {error.status} {error.code}".strip(),
                     fix="try it again later")
