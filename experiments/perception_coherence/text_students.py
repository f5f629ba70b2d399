"""Students of one corpus: trained once, saved, and measured on the test split."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from experiments.perception_coherence.rivals import RivalRecipe, distill_rival
from experiments.perception_coherence.text_corpora import TaughtCorpus
from experiments.result_tables import Record
from experiments.saved_encoders import load_or_train
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import NEIGHBOURS, DistillationRecipe
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.evaluation.result import Evaluation
from hummingbit.training.distillation import Agreement, measure_agreement

PRESETS = "presets.toml"


def text_recipe(objective: str, **settings: Any) -> DistillationRecipe:
    """Return the recipe of an objective: the preset for texts, overridden by `settings`."""
    if objective == NEIGHBOURS:
        return DistillationRecipe(objective=objective, **settings)
    presets = tomllib.loads(files("experiments.perception_coherence").joinpath(PRESETS).read_text())
    return RivalRecipe(objective=objective, **{**presets.get(objective, {}), **settings})


def student_folder(corpus: TaughtCorpus, recipe: DistillationRecipe, work_dir: Path) -> Path:
    """Return the folder of a student that learns from its teacher alone, shared by all parts."""
    name = f"{corpus.name}-{recipe.objective}-{recipe.n_bits}-{recipe.seed}"
    return work_dir / "text" / name


def load_or_distill(corpus: TaughtCorpus, recipe: DistillationRecipe, folder: Path) -> Encoder:
    """Return the student saved in `folder`; train it if it is missing or out of date."""

    def train_anew() -> Encoder:
        database, teacher = corpus.database, corpus.teacher
        return distill_rival(database, teacher, recipe, folder, overwrite=True).encoder

    about = {"teacher": corpus.teacher.about()}
    return load_or_train(folder, corpus.database, recipe, train_anew, about)


def measure_student(corpus: TaughtCorpus, encoder: Encoder, folder: Path) -> Record:
    """Return p@100 and coherence of the test split's codes, and the size of the artifact."""
    evaluation = evaluate_encoder(encoder, corpus.database.labelled(), corpus.queries.labelled())
    agreement = agreement_of_queries(corpus, encoder)
    return {
        **retrieval_figures(evaluation),
        "coherence": agreement.coherence,
        "neighbours": agreement.neighbours,
        "nearest": agreement.nearest,
        "held_out": encoder.metadata.get("coherence"),
        "artifact_bytes": sum(file.stat().st_size for file in folder.iterdir()),
    }


def agreement_of_queries(corpus: TaughtCorpus, encoder: Encoder) -> Agreement:
    """Return how far the codes of the test split and its teacher's vectors agree."""
    return measure_agreement(
        encoder.encode_uncorrected_queries(corpus.queries.inputs),
        encoder.encode(corpus.database.inputs),
        corpus.query_vectors,
        corpus.teacher.vectors,
    )


def retrieval_figures(evaluation: Evaluation) -> Record:
    """Return p@100 as served and tie-averaged."""
    return {
        "p100": evaluation.metrics["P@100"],
        "p100_expected": evaluation.expected["P@100"],
        "distinct_codes": evaluation.distinct_codes,
    }
