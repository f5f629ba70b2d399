"""A collection that is made out of sight, and appears once it is complete.

Its store lies in a partial folder (:mod:`index.folder.partial`), so nobody finds it by its name or
writes to it, and a crash leaves nothing but what the next opening deletes. The name is taken
meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from index.backend import CollectionBackend
from index.folder.named_collections import HiddenCollection


class Draft:
    """A collection that only its maker can see. It ends with :meth:`publish` or :meth:`discard`."""

    def __init__(
        self,
        name: str,
        hidden: HiddenCollection,
        collection: CollectionBackend,
        publish: Callable[[str, HiddenCollection], CollectionBackend],
        release: Callable[[str], object],
    ) -> None:
        """Hold a hidden collection; the folder is to `publish` it, and to `release` its name."""
        self.id = hidden.id
        """What :meth:`index.data_folder.DataFolder.published` knows it by afterwards."""
        self.collection = collection
        self._name = name
        self._hidden = hidden
        self._publish = publish
        self._release = release
        self._ended = False

    def publish(self) -> CollectionBackend:
        """Let the collection appear under its name, in one step, and return it.

        Raises:
            CollectionExists: if the name was given to an alias meanwhile; it stays a draft.
            StoreError, DataFolderError: if it cannot be opened.
        """
        published = self._publish(self._name, self._hidden)
        self._release(self._name)
        self._ended = True
        return published

    def discard(self) -> None:
        """Delete the collection, unless it was published or discarded before."""
        if not self._ended:
            self._ended = True
            self._hidden.delete()
            self._release(self._name)
