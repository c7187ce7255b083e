"""The models of system utterances: a T5 fine-tuned on templates of acts (ft_t5), prefixes for a frozen T5 (pt_t5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from parapet.evaluation.models.configs import (
    GenerationConfig,
    GenerationPrediction,
    PrefixConfig,
    PrefixPrediction,
)
from parapet.pipelines.models import family
from parapet.pipelines.sets import SetOptions
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import as_path, is_there
from parapet.transforms.running import options

if TYPE_CHECKING:
    from pathlib import Path

    from parapet.evaluation.models.generation.inference import Job, Reranker

# SGSAcc (Chen, Lin and Byrne 2023), Appendix E. The dev set neither chooses an epoch nor stops the training.
SGSACC: family.Preset = {
    "epochs": 3,
    "batch_size": 8,
    "learning_rate": 1e-4,
    "schedule": "constant",
    "warmup": 0.0,
    "keep": "last",
}
WARNINGS = {
    "without_acts": ("turn", "{n} without an act: the utterance is empty"),
    "cut_templates": ("turn", "{n} with more than --max_input tokens of templates: the beginning was cut off"),
    "without_template": ("turn", "{n} with an act that has no template: it has a sentence in the schema's words"),
    "without_end": ("turn", "{n} with an utterance that did not end within --max_output tokens"),
}


@dataclass(frozen=True, kw_only=True)
class Generation(GenerationConfig, family.TrainOnCorpora, family.PresetOptions):
    """A T5 that is fine-tuned to generate system utterances."""

    learner_class = "generation.net:GenerationLearner"
    packages = ("transformers",)
    recorded = ("torch", "transformers")
    presets: ClassVar[Mapping[str, family.Preset]] = {"sgsacc": SGSACC}
    description = """\
Fine-tunes a T5 to express the acts of a system turn. Its input is a short sentence for each act, built from the
schema's words, as in T2G2 (Kale and Rastogi 2020)."""
    example = "  parapet train {model} --train my_corpus --checkpoint t5-small --output my_model"
    preset: Literal["sgsacc"] | None = None

    def data(self, *checkpoint: Any) -> tuple[list[Any], family.Inputs]:
        """Reads system turns and templates. Raises InputError for files that cannot be used."""
        from parapet.evaluation.models.generation.data import read_examples, read_templates

        templates, files = read_templates(self.templates) if self.templates else ({}, [])
        read = partial(read_examples, templates=templates)
        train, dev, inputs = self.read_sets(read, lambda example: example.opening)
        inputs += [("templates", str(path)) for path in files]
        return [*checkpoint, train, dev, templates], inputs


@dataclass(frozen=True, kw_only=True)
class Prefixes(PrefixConfig, Generation):
    """Prefixes for a frozen T5."""

    presets: ClassVar[Mapping[str, family.Preset]] = {
        "sgsacc": {**SGSACC, "prefix_length": 10, "prefix_embedding": 512, "prefix_size": 384}
    }
    description = """\
Prefix-tunes a frozen T5 (Li and Liang 2021) to express the acts of a system turn. Its input is that of ft_t5."""


_EXAMPLE = """\
  parapet predict {model} --model my_model --reference my_corpus --output my_utterances
  parapet predict {model} --model my_model --reference my_corpus --candidates 5 --rerank lexical \\
      --output my_utterances
  parapet evaluate --task generation --reference my_corpus \\
      --predictions my_utterances/predictions --output my_scores"""


@dataclass(frozen=True, kw_only=True)
class PredictUtterances(SetOptions, GenerationPrediction, family.PredictTrained):
    """A prediction of utterances."""

    description = """\
Writes an utterance for the acts of each system turn: OUT/predictions/original/SPLIT/utterances.jsonl, and so on for
each variant and set, for 'parapet evaluate --task generation'."""
    example = _EXAMPLE
    variants_text = options.SCHEMA_VARIANTS
    sets_text = "other corpora: entities=unseen"
    count_in, count_out = "turns", "said"

    def check(self) -> family.Prediction:
        """Checks the model, the sets and the scorer. Raises InputError if they cannot be used."""
        sources = self.sources()
        if self.beams is not None and self.beams < self.candidates:
            reason = (
                f"{self.candidates} candidates need at least as many beams, but there are {self.beams}: raise --beams"
            )
            raise InputError(reason, "--beams")
        self.check_device("transformers")
        from parapet.evaluation.models.generation import data
        from parapet.evaluation.models.generation.inference import Job, Search, relative_of
        from parapet.evaluation.models.generation.net import check

        card = check(self.model, self.model_name, self.checkpoint)
        templates, files = data.read_templates(self.templates) if self.templates else (card.templates, [])
        sets = tuple(data.sources(sources, templates))
        paths = {source.name: relative_of(source.name, sources.split) for source in sets}
        reranker = _reranker(self, list(paths.values()))
        candidates = max(1, self.candidates) if reranker else self.candidates
        search = Search(self.batch_size, self.beams or max(1, candidates), candidates)
        own = {"search": search, "sets": sets, "split": sources.split, "reranker": reranker}
        job = self.job(Job, checkpoint=self.checkpoint, **own)
        read = [("--model", self.model), *(("--reference", file.path) for source in sets for file in source.files)]
        more = [
            ("--checkpoint", self.checkpoint),
            ("--nli_model", self.nli_model),
            *(("--also", path) for path in self.also),
            *(("--templates", str(path)) for path in files),
        ]
        changed = "where the reranker chose another than the most likely"
        also = {name: (f"reranked/{name}", changed) if reranker else None for name in paths}
        return family.Prediction(
            job=job,
            header=_header(job, files),
            inputs=read + [(flag, path) for flag, path in more if path],
            outputs=tuple(family.Output(path, f"said/{name}", "turn", also[name]) for name, path in paths.items()),
            warnings=WARNINGS,
        )


@dataclass(frozen=True, kw_only=True)
class PredictByPrefixes(PrefixPrediction, PredictUtterances):
    """A prediction by prefixes, which need the T5 that they were trained with."""

    example = _EXAMPLE.replace("--model my_model", "--model my_model --checkpoint t5-small")


def _reranker(config: GenerationPrediction, files: Sequence[str]) -> Reranker | None:
    from parapet.evaluation.models.generation.inference import Reranker, scorer_of

    if (config.rerank == "nli") != (config.nli_model is not None):
        reason = (
            "is required: give a folder with a model" if config.rerank == "nli" else "requires --rerank nli: add it"
        )
        raise InputError(reason, "--nli_model")
    if config.rerank is None:
        if config.also:
            raise InputError("requires --rerank: add it", "--also")
        return None
    if config.candidates < 2 and not config.also:
        raise InputError("has nothing to choose from: give --candidates 2 or more, or --also", "--rerank")
    for folder in config.also:
        for file in files:
            if not is_there(as_path(folder) / file):
                name = file.split("/")[1]
                raise InputError(f"has no predictions of {name}: expected {file}", folder, "--also")
    reranker = Reranker(config.rerank, config.nli_model or "", config.batch_size, tuple(config.also))
    scorer_of(reranker.scorer, reranker.folder, reranker.batch_size)
    return reranker


def _header(job: Job, templates: Sequence[Path]) -> dict[str, object]:
    """Makes the part of ``run.json`` other than files and counts."""
    from parapet.evaluation.models.generation.inference import relative_of, scorer_of
    from parapet.evaluation.task import sha256_of

    reranker = job.reranker
    scorer = scorer_of(reranker.scorer, reranker.folder, reranker.batch_size).model if reranker else None
    options = {
        "split": job.split,
        "sets": [source.name for source in job.sets],
        "beams": job.search.beams,
        "candidates": job.search.candidates,
        "rerank": scorer,
    }
    return {
        **run_header(f"predict_{job.model}", options),
        "model": family.digest_of_model(job.folder),
        "also": [
            {"set": source.name, "sha256": sha256_of(as_path(folder) / relative_of(source.name, job.split))}
            for folder in (reranker.others if reranker else ())
            for source in job.sets
        ],
        "templates": [family.named_digest(str(path)) for path in templates],
        "inputs": [
            {"set": source.name, "name": file.relative, "sha256": sha256_of(as_path(file.path))}
            for source in job.sets
            for file in source.files
        ],
    }
