"""Data sets of the Hugging Face Hub, written out once as JSON Lines and from then on read like any local file.

An address is ``hub:owner/name``, with ``:configuration`` and ``#split`` where they are needed, for example
``hub:wmt/wmt14:de-en#validation``. A local folder of data files stands for owner/name too.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pellucid.cache import cache_folder
from pellucid.data.json_array import is_array, values_of
from pellucid.errors import ConfigError, DataError
from pellucid.files import write_folder

PREFIX = "hub:"
_FILE = "data.jsonl"
_MADE_BY_THE_HUB = "refs/convert/parquet"


def is_address(path: str) -> bool:
    """Whether `path` names a data set of the Hub."""
    return path.startswith(PREFIX)


def with_split(path: str, split: str) -> str:
    """`path` with ``#split`` added where it is an address that names none."""
    return f"{path}#{split}" if is_address(path) and "#" not in path else path


def fetch(address: str) -> str:
    """The local JSON Lines file of a Hub data set, downloaded at the first call; delete it to download again.

    Raises:
        ConfigError: the address is malformed, or the package datasets is not installed.
        DataError: no such data set, configuration or split; no network.
    """
    match = re.fullmatch(r"hub:(?P<name>[^:#\0]+)(?::(?P<configuration>[^:#]+))?(?:#(?P<split>[^#]+))?", address)
    if match is None:
        raise ConfigError("this is no Hub address", where=address, fix="write hub:owner/name:configuration#split")
    name, configuration, split = match["name"], match["configuration"], match["split"] or "train"
    digest = hashlib.sha256(f"{address}\n{_local_state(Path(name))}".encode(errors="surrogatepass")).hexdigest()[:12]
    readable = re.sub(r"[^A-Za-z0-9]+", "-", f"{name} {split}")[-60:].strip("-")
    folder = cache_folder("hub") / f"{readable}-{digest}"
    if not (folder / _FILE).is_file():
        write_folder(folder, lambda place: _download(name, configuration, split, place / _FILE))
    return str(folder / _FILE)


def _local_state(folder: Path) -> str:
    """Names, sizes and times of a folder's files, so that a change in them is seen; "" of what is no folder."""
    try:
        files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else ()
        return "\n".join(f"{path.resolve()} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files)
    except OSError:  # a name too long for one, a folder that nobody may enter: who reads it is told
        return ""


def _download(name: str, configuration: str | None, split: str, file: Path) -> None:
    with file.open("w", encoding="utf-8", newline="\n") as output:
        for row in _rows(name, configuration, split):
            output.write(json.dumps(row, ensure_ascii=True, default=_in_json) + "\n")


def _in_json(value: Any) -> Any:
    """What JSON has no form for. Bytes become no text: who asks for them as one is told that they are none."""
    return {"bytes": len(value)} if isinstance(value, bytes) else str(value)


def _rows(name: str, configuration: str | None, split: str) -> Iterator[dict[str, Any]]:
    try:
        import datasets
    except ImportError as error:
        raise ConfigError("reading from the Hub needs the package datasets", where=f"{PREFIX}{name}",
                          fix="pip install 'pellucid[data]'") from error
    try:
        builder = _builder(name, configuration)
        files = _arrays(builder, split)
        for file in files:
            with _open(file) as opened:
                yield from values_of(opened, file)
        if not files:
            rows = builder.as_streaming_dataset(split=split)
            features = rows.features or {}
            classes = {key: kind for key, kind in features.items() if isinstance(kind, datasets.ClassLabel)}
            if features:
                rows = rows.decode(False)  # of pictures and sounds, which are no text
            for row in rows:
                yield _named(row, classes)
    except (OSError, ValueError, KeyError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise DataError("the Hub data set cannot be read", where=f"{PREFIX}{name}",
                        why=f"{type(error).__name__}: {str(error)[:300]}",
                        fix="check the name, :configuration and #split, and the network") from error


def _builder(name: str, configuration: str | None) -> Any:
    """What knows the files. Of a data set that is made by a script, which is not run, those that the Hub made from it:
    Parquet files on a branch of their own, a folder a configuration."""
    import datasets

    try:
        return datasets.load_dataset_builder(name, configuration)
    except RuntimeError as error:
        if "scripts are no longer supported" not in str(error):
            raise
        return datasets.load_dataset_builder(name, data_dir=configuration, revision=_MADE_BY_THE_HUB)


def _arrays(builder: Any, split: str) -> list[str]:
    """The files of a split where each is one JSON array and nothing is said about its fields, else none. The library
    would hold such a file in memory whole."""
    files = [str(file) for file in (builder.config.data_files or {}).get(split, [])]
    plain = builder.info.features is None and all(file.removesuffix(".gz").endswith(".json") for file in files)
    return files if plain and all(_begins_as_array(file) for file in files) else []


def _begins_as_array(file: str) -> bool:
    with _open(file) as opened:
        return is_array(opened.read(4096))


def _open(file: str) -> Any:
    """The bytes of a file of the Hub, or of a local one."""
    import fsspec

    return fsspec.open(file, "rb", compression="infer")


def _named(row: dict[str, Any], classes: dict[str, Any]) -> dict[str, Any]:
    """Class numbers as class names; -1, which stands for no label, stays."""
    for key, kind in classes.items():
        if isinstance(row[key], int) and row[key] >= 0:
            row[key] = kind.int2str(row[key])
    return row
