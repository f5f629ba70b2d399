"""Where collections are stored, according to settings and options."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

from foundation.extras import install_command
from index.data_folder import DataFolder
from index.errors import DataFolderError

Engine = Literal["local", "milvus"]
ENGINES = get_args(Engine)


@dataclass(frozen=True, slots=True)
class DataFolderLocation:
    """The data folder, and whether its collections are stored in it or on Milvus."""

    path: Path
    engine: Engine = "local"
    milvus_uri: str | None = None
    milvus_token: str | None = field(default=None, repr=False)

    def open(self, *, writable: bool, indexed: bool = True, follow: bool = False) -> DataFolder:
        """Open the data folder; see :class:`index.data_folder.DataFolder`.

        Raises:
            DataFolderError: if it cannot be opened, or pymilvus or the address of Milvus is
                missing.
            StoreError: if Milvus cannot be reached or refuses the connection.
        """
        if self.engine == "local":
            return DataFolder(self.path, writable=writable, indexed=indexed, follow=follow)
        if self.engine not in ENGINES:
            known = " or ".join(ENGINES)
            raise DataFolderError(f"engine is {self.engine[:80]!r}; it must be {known}")
        if self.milvus_uri is None:
            hint = "set --milvus-uri or HUMMINGBIT_MILVUS_URI, for example http://HOST:19530"
            raise DataFolderError(f"the engine milvus needs the address of a server; {hint}")
        if find_spec("pymilvus") is None:
            hint = install_command("milvus")
            raise DataFolderError(f"the engine milvus needs the package pymilvus; run {hint}")
        # pymilvus takes a second to import and may not be installed.
        from index.milvus.folder import MilvusFolder  # noqa: PLC0415

        return MilvusFolder(self.path, self.milvus_uri, self.milvus_token, writable=writable)
