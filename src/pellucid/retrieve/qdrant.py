"""The same index on a Qdrant server: sparse vectors whose inner product with those of a question is BM25.

A passage's vector has for each term what it adds but for the rarity of the term, which the server keeps count of (its
modifier IDF is the logarithm of bm25.py). A term has 32 bits there, so that one in a few thousand shares its number
with a term that has nothing to do with it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from pellucid.errors import ConfigError
from pellucid.retrieve.bm25 import saturation
from pellucid.retrieve.documents import ids_in, read_added, read_documents
from pellucid.retrieve.passages import Passage, cut
from pellucid.retrieve.retriever import Found, check_question
from pellucid.retrieve.terms import distinct_terms, terms_of

VECTOR = "bm25"
KEY = "QDRANT_API_KEY"
_PORT = 6333
_AT_ONCE = 256  # passages that are sent together
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Collection:
    """A collection of a server; its name is an alias, so that a new one can take its place at once.

    Args:
        client: a `qdrant_client.QdrantClient`.
    """

    def __init__(self, client: Any, name: str) -> None:
        self.client, self.name = client, name

    @classmethod
    def at(cls, place: str) -> Collection:
        """That at ``qdrant://host[:port]/collection``, or by https at ``qdrant+https://…``. The server gets the key
        that the environment has as QDRANT_API_KEY; it is kept nowhere.

        Raises:
            ConfigError: the extra is not installed, or this is no such place.
        """
        if find_spec("qdrant_client") is None:
            raise ConfigError("an index on a Qdrant server needs qdrant-client", where=place,
                              fix="pip install 'pellucid[retrieve]'")
        if "@" in place:  # and is not shown
            raise ConfigError("the place of a collection has no name or key in it", where="the part before @",
                              why="places are written into reports", fix=f"give the key as {KEY}, in the environment")
        try:
            parts = urlsplit(place)
            host, port, name = parts.hostname, parts.port or _PORT, parts.path.strip("/")
        except ValueError:
            host, port, name = None, 0, ""
        if not host or not name or "/" in name:
            raise ConfigError("this is no place of a collection", where=place,
                              fix="write qdrant://HOST:PORT/COLLECTION, or qdrant+https://…")
        from qdrant_client import QdrantClient

        return cls(QdrantClient(host=host, port=port, https=parts.scheme == "qdrant+https",
                                api_key=os.environ.get(KEY) or None, check_compatibility=False), name)

    def search(self, question: str, k: int = 5) -> list[Found]:
        """The passages that fit best (see `Retriever`), scored by the server."""
        check_question(question, k)
        from qdrant_client.models import SparseVector

        terms = np.unique(_folded(distinct_terms(question)))
        if not len(terms):
            return []
        with self.errors():
            found = self.client.query_points(self.name, SparseVector(indices=terms.tolist(), values=[1.0] * len(terms)),
                                             using=VECTOR, limit=k).points
            return [Found(_passage(one.payload), one.score) for one in found]

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turns what the client raises into a ConfigError."""
        from qdrant_client.http.exceptions import ApiException

        try:
            yield
        except (ApiException, OSError, ValueError, RuntimeError) as error:
            why = " ".join(str(error).split())[:300]
            raise ConfigError("the Qdrant server has no such index, or does not answer", where=self.name, why=why,
                              fix="start it, or build the index: pellucid index DATA --out qdrant://…; "
                                  f"if it asks for a key, set {KEY}") from error


def write_collection(collection: Collection, paths: Sequence[str], add: bool, longest: int,
                     progress: Callable[[str], None] = lambda line: None) -> dict[str, int]:
    """Makes or replaces the index, or adds to it; see `build_index`. What is added is weighed by the average length of
    the passages that the index was built of.

    Raises:
        ConfigError: no server, no index to add to, a collection of this name that is no index.
        DataError: what `read_documents` says.
    """
    from qdrant_client import models

    client, name = collection.client, collection.name
    with collection.errors():
        current = {alias.alias_name: alias.collection_name for alias in client.get_aliases().aliases}.get(name)
        about = _about(client, current) if current else {}
        is_taken = not about and (current is not None or client.collection_exists(name))
    if is_taken or (add and not about):
        what = "a collection of this name is there, and is no index" if is_taken else "there is no such index to add to"
        raise ConfigError(what, where=name, fix="give another name")
    if add:
        longest = about.get("characters", longest)
        filled = {document.id for document in read_added(paths)}  # what is wrong with any is told before one goes
        _remove(collection, ids_in(paths) - filled)  # what is blank now
        added = (passage for document in read_added(paths) for passage in cut(document, longest))
        _send(collection, name, _replacing(collection, added), about["average_length"], progress)
        return {"passages": int(client.count(name).count)}
    documents, lengths = 0, list[int]()
    for document in read_documents(paths):
        documents += 1
        lengths += [len(terms_of([passage.text])[0]) for passage in cut(document, longest)]
        progress(f"{documents:,} documents read, {len(lengths):,} passages")
    average = sum(lengths) / max(len(lengths), 1)
    new = f"{name}.build-{uuid.uuid4().hex}"
    with collection.errors():
        for one in client.get_collections().collections:  # of builds that were interrupted
            if re.fullmatch(re.escape(f"{name}.build-") + "[0-9a-f]{32}", one.name) and one.name != current:
                client.delete_collection(one.name)
        vector = models.SparseVectorParams(modifier=models.Modifier.IDF)
        client.create_collection(new, vectors_config={}, sparse_vectors_config={VECTOR: vector},
                                 metadata={"average_length": average, "characters": longest})
    again = (passage for document in read_documents(paths) for passage in cut(document, longest))
    _send(collection, new, _blocks(again), average, progress)
    with collection.errors():
        take = models.CreateAlias(collection_name=new, alias_name=name)
        drop = [models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=name))] if current else []
        client.update_collection_aliases([*drop, models.CreateAliasOperation(create_alias=take)])
        if current:
            client.delete_collection(current)
    return {"documents": documents, "passages": len(lengths)}


def _about(client: Any, name: str) -> dict[str, Any]:
    """What a collection says of itself, if it is an index."""
    found = client.get_collection(name).config.metadata or {}
    return found if "average_length" in found else {}


def _passage(payload: Any) -> Passage:
    """The passage of a point; raises ValueError where somebody else has made it."""
    kinds = {"document": str, "title": str, "start": int, "end": int, "text": str}
    if {name: type(value) for name, value in (payload or {}).items()} != kinds:
        raise ValueError("what it holds are no passages")
    return Passage(**payload)


def _blocks(passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    passages = iter(passages)
    while block := list(itertools.islice(passages, _AT_ONCE)):
        yield block


def _replacing(collection: Collection, passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    """Blocks, before each of which the older passages of its documents go."""
    last = ""
    for block in _blocks(passages):
        _remove(collection, {passage.document for passage in block} - {last})
        last = block[-1].document
        yield block


def _remove(collection: Collection, documents: Iterable[str]) -> None:
    """Takes the passages of these documents out."""
    from qdrant_client import models

    names = iter(sorted(documents))
    while some := list(itertools.islice(names, _AT_ONCE)):
        same = models.FieldCondition(key="document", match=models.MatchAny(any=some))
        with collection.errors():
            collection.client.delete(collection.name, models.FilterSelector(filter=models.Filter(must=[same])))


def _send(collection: Collection, name: str, blocks: Iterable[list[Passage]], average: float,
          progress: Callable[[str], None]) -> None:
    from qdrant_client import models

    sent = 0
    for block in blocks:
        points = [models.PointStruct(id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{passage.document}\0{passage.start}")),
                                     vector={VECTOR: models.SparseVector(indices=indices, values=values)},
                                     payload=dict(vars(passage)))
                  for passage, (indices, values) in ((one, _vector(one.text, average)) for one in block)]
        with collection.errors():
            collection.client.upsert(name, points, wait=True)
        sent += len(block)
        progress(f"{sent:,} passages sent")


def _vector(text: str, average: float) -> tuple[list[int], list[float]]:
    """The terms of a passage, and what each adds before its rarity."""
    terms, counts = np.unique(_folded(terms_of([text])[0]), return_counts=True)
    half = saturation(np.array([counts.sum()]), average)
    return terms.tolist(), (counts / (counts + half)).tolist()


def _folded(terms: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """48 bits in 32."""
    return terms * _MIX >> np.uint64(32)
