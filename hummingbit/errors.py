"""The errors that a caller of the library catches.

Each is a :class:`HummingbitError`, but for :class:`ServiceError`, which the client raises. An error
says in a sentence what is wrong: `reason`, the `field` that it is about, and the `position` of an
item in a list. Any other exception is a defect of hummingbit.

>>> from hummingbit.errors import DocumentError, UnknownCollection
"""

from __future__ import annotations

from hummingbit.clients.requests import ServiceError
from hummingbit.corpus.document import DocumentError
from hummingbit.corpus.lines import LineError, ReadError
from hummingbit.encoder.analyzers import AnalyzerError
from hummingbit.encoder.artifact import ArtifactError
from hummingbit.encoder.endpoint import EndpointError
from hummingbit.encoder.limits import CodeError
from hummingbit.encoder.recipes import RecipeError
from hummingbit.encoder.text_model import ModelError
from hummingbit.evaluation.metrics import MetricError
from hummingbit.evaluation.result import EvaluationError
from hummingbit.foundation.errors import HummingbitError, InputError
from hummingbit.foundation.processes import ForkedError
from hummingbit.index.errors import (
    CollectionExists,
    CollectionUnavailable,
    DataFolderError,
    DataFolderInUse,
    InvalidSnapshot,
    SnapshotError,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreReplaced,
    StoreUnavailable,
    UnknownCollection,
    UnknownDocument,
    UnknownEncoder,
    UnknownSnapshot,
    WritesLost,
)
from hummingbit.training.data import TrainingDataError
from hummingbit.training.teachers import TeacherError

__all__ = [
    "AnalyzerError",
    "ArtifactError",
    "CodeError",
    "CollectionExists",
    "CollectionUnavailable",
    "DataFolderError",
    "DataFolderInUse",
    "DocumentError",
    "EndpointError",
    "EvaluationError",
    "ForkedError",
    "HummingbitError",
    "InputError",
    "InvalidSnapshot",
    "LineError",
    "MetricError",
    "ModelError",
    "ReadError",
    "RecipeError",
    "ServiceError",
    "SnapshotError",
    "StoreClosed",
    "StoreError",
    "StoreFull",
    "StoreReplaced",
    "StoreUnavailable",
    "TeacherError",
    "TrainingDataError",
    "UnknownCollection",
    "UnknownDocument",
    "UnknownEncoder",
    "UnknownSnapshot",
    "WritesLost",
]
