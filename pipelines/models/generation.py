"""The models of system utterances: a T5 fine-tuned on templates of acts (ft_t5), prefixes for a frozen T5 (pt_t5)."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from parapet.evaluation.models.configs import (
    GenerationConfig,
    GenerationPrediction,
    PrefixConfig,
    PrefixPrediction,
)
from parapet.pipelines.app import read_config
from parapet.pipelines.flags import SCHEMA_VARIANTS
from parapet.pipelines.models import family
from parapet.pipelines.sets import sources_of
from parapet.schemas.errors import InputError, run_header
from parapet.schemas.layout import as_path, is_there

if TYPE_CHECKING:
    from pathlib import Path

    from parapet.evaluation.models.generation.inference import Job, Reranker
    from parapet.evaluation.models.training import Learner
    from parapet.pipelines.models.presets import Preset

# SGSAcc (Chen, Lin and Byrne 2023), Appendix E. The dev set neither chooses an epoch nor stops the training.
SGSACC: Preset = {
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


class Generation(family.Family):
    """A T5 that is fine-tuned to generate system utterances."""

    config: type[GenerationConfig] = GenerationConfig
    learner_class = "generation.net:GenerationLearner"
    prediction_config: type[GenerationPrediction] = GenerationPrediction
    sets: Mapping[str, Any] = {"variants": SCHEMA_VARIANTS, "sets": "other corpora: entities=unseen"}
    packages = ("transformers",)
    recorded = ("torch", "transformers")
    presets: Mapping[str, Preset] = {"sgsacc": SGSACC}
    description = """\
Fine-tunes a T5 to express the acts of a system turn. Its input is a short sentence for each act, built from the
schema's words, as in T2G2 (Kale and Rastogi 2020)."""
    predict_description = """\
Writes an utterance for the acts of each system turn: OUT/predictions/original/SPLIT/utterances.jsonl, and so on for
each variant and set, for 'parapet evaluate --task generation'."""
    t5 = ""  # the flag for the T5, in the example of a prediction

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.example = f"  parapet train {model} --train my_corpus --checkpoint t5-small --output my_model"
        command = f"  parapet predict {model} --model my_model{self.t5}"
        self.predict_example = f"""\
{command} --reference my_corpus --output my_utterances
{command} --reference my_corpus --candidates 5 --rerank lexical \\
      --output my_utterances
  parapet evaluate --task generation --reference my_corpus \\
      --predictions my_utterances/predictions --output my_scores"""

    def learner(self, config: GenerationConfig, *checkpoint: Any) -> tuple[Callable[[], Learner], family.Inputs]:
        """Reads system turns and templates. Raises InputError for files that cannot be used."""
        from parapet.evaluation.models.generation.data import read_examples, read_templates

        templates, files = read_templates(config.templates) if config.templates else ({}, [])
        read = partial(read_examples, templates=templates)
        train, dev, inputs = family.read_sets(config, read, lambda example: example.opening)
        inputs += [("templates", str(path)) for path in files]
        return partial(family.load_class(self.learner_class), config, *checkpoint, train, dev, templates), inputs

    def prediction(self, args: argparse.Namespace) -> family.Prediction:
        """Checks the model, the sets and the scorer. Raises InputError if they cannot be used."""
        config = read_config(self.prediction_config, args)
        sources = sources_of(args)
        if config.beams is not None and config.beams < config.candidates:
            reason = (
                f"{config.candidates} candidates need at least as many beams, but there are {config.beams}: "
                "raise --beams"
            )
            raise InputError(reason, "--beams")
        family.check_device(config.device, "transformers")
        from parapet.evaluation.models.generation import data
        from parapet.evaluation.models.generation.data import read_templates
        from parapet.evaluation.models.generation.inference import Job, Search, relative_of
        from parapet.evaluation.models.generation.net import check

        card = check(config.model, self.model, config.checkpoint)
        templates, files = read_templates(config.templates) if config.templates else (card.templates, [])
        sets = tuple(data.sources(sources, templates))
        paths = {source.name: relative_of(source.name, sources.split) for source in sets}
        reranker = _reranker(config, list(paths.values()))
        candidates = max(1, config.candidates) if reranker else config.candidates
        search = Search(config.batch_size, config.beams or max(1, candidates), candidates)
        own = {"search": search, "sets": sets, "split": sources.split, "reranker": reranker}
        job = family.make_job(Job, config, self.model, checkpoint=config.checkpoint, **own)
        read = [("--model", config.model), *(("--reference", file.path) for source in sets for file in source.files)]
        more = [
            ("--checkpoint", config.checkpoint),
            ("--nli_model", config.nli_model),
            *(("--also", path) for path in config.also),
            *(("--templates", str(path)) for path in files),
        ]
        changed = "where the reranker chose another than the most likely"
        also = {name: (f"reranked/{name}", changed) if reranker else None for name in paths}
        return family.Prediction(
            job=job,
            header=_header(job, files),
            inputs=read + [(flag, path) for flag, path in more if path],
            asked="turns",
            answered="said",
            outputs=tuple(family.Output(path, f"said/{name}", "turn", also[name]) for name, path in paths.items()),
            warnings=WARNINGS,
        )


class Prefixes(Generation):
    """Prefixes for a frozen T5."""

    config = PrefixConfig
    prediction_config = PrefixPrediction
    presets: Mapping[str, Preset] = {
        "sgsacc": {**SGSACC, "prefix_length": 10, "prefix_embedding": 512, "prefix_size": 384}
    }
    description = """\
Prefix-tunes a frozen T5 (Li and Liang 2021) to express the acts of a system turn. Its input is that of ft_t5."""
    t5 = " --checkpoint t5-small"


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
