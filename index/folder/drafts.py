"""A collection that stays hidden until it is complete.

Its store is in a partial folder (:mod:`index.folder.partial`), so nobody else finds or changes it,
and the next opening of the data folder deletes what a crash leaves. Its name is reserved meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from index.backend import CollectionBackend
from index.folder.named_collections import HiddenCollection


class Draft:
    """A hidden collection; :meth:`publish` or :meth:`discard` ends it."""

    def __init__(
        self,
        name: str,
        hidden: HiddenCollection,
        collection: CollectionBackend,
        publish: Callable[[str, HiddenCollection], CollectionBackend],
        release: Callable[[str], object],
    ) -> None:
        """Hold a hidden collection; `publish` makes it appear, and `release` frees its name."""
        self.id = hidden.id
        """The id for :meth:`index.data_folder.DataFolder.published_draft`."""
        self.collection = collection
        self._name = name
        self._hidden = hidden
        self._publish = publish
        self._release = release
        self._ended = False

    def publish(self) -> CollectionBackend:
        """Make the collection appear under its name, in one step, and return it.

        Raises:
            CollectionExists: if an alias has got the name meanwhile; the draft stays.
            StoreError, DataFolderError: if it cannot be opened.
        """
        collection = self._publish(self._name, self._hidden)
        self._release(self._name)
        self._ended = True
        return collection

    def discard(self) -> None:
        """Delete the collection, unless it was published or discarded before."""
        if not self._ended:
            self._ended = True
            self._hidden.delete()
            self._release(self._name)
