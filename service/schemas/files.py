"""The JSON of files of unknown layout."""

from __future__ import annotations

from pydantic import Field

from hummingbit.service.schemas.common import ResponseModel


class FileDocument(ResponseModel):
    """A document as it was read from a file."""

    id: str
    text: str | None
    labels: list[str]


class FileSurvey(ResponseModel):
    """What a file holds, as `hummingbit quickstart --inspect` finds it."""

    documents: int = Field(description="Documents with text.")
    skipped: int = Field(description="Lines that are no documents.")
    first_skipped: str | None = Field(description="What is wrong with the first such line.")
    without_text: int = Field(description="Documents whose text is empty; they are left out.")
    repeats: int = Field(description="Documents with the text of an earlier one.")
    fields: list[str] = Field(description="The names of all fields, of the first records.")
    text_fields: list[str] = Field(description="The fields of the text, a title first.")
    label_field: str | None = Field(description="The field of the labels, or null without labels.")
    label_candidates: list[str] = Field(description="Fields that may hold labels.")
    labels: int = Field(description="Different labels.")
    labelled: int = Field(description="Labels of all documents, together.")
    id_field: str | None = Field(description="The field of ids; null if lines are numbered.")
    language: str = Field(description="The language of the texts, none if there is no stemmer.")
    passages: bool = Field(description="Whether so many texts are long that passages are of use.")
    has_codes: bool = Field(description="Whether the encoder that ships reads such texts.")
    codes: str = Field(description="Why, as a phrase.")
    sample: list[FileDocument] = Field(description="The first documents.")
