"""The models of system utterances: a T5 fine-tuned on templates of acts (ft_t5), prefixes for a frozen T5 (pt_t5)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from parapet.evaluation.models.configs import GenerationConfig, GenerationPrediction, PrefixConfig, PrefixPrediction
from parapet.pipelines.corpora import SetOptions
from parapet.pipelines.models import family
from parapet.schemas.errors import InputError
from parapet.schemas.layout import as_path, is_there
from parapet.transforms.core import options

if TYPE_CHECKING:
    from parapet.evaluation.models.generation.inference import Reranker

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


class Generation(GenerationConfig, family.TrainOnCorpora):
    """A T5 that is fine-tuned to generate system utterances."""

    learner_class = "generation.net:GenerationLearner"
    description = """\
Fine-tunes a T5 to express the acts of a system turn. Its input is a short sentence for each act, built from the
schema's words, as in T2G2 (Kale and Rastogi 2020)."""
    example = family.FINE_TUNING
    preset: str | None = family.preset(sgsacc=SGSACC)

    def data(self, *checkpoint: Any) -> tuple[list[Any], family.Inputs]:
        """Reads system turns and templates. Raises InputError for files that cannot be used."""
        from parapet.evaluation.generation.corpus import read_templates
        from parapet.evaluation.models.generation.data import read_examples

        templates, files = read_templates(self.templates) if self.templates else ({}, [])
        read = partial(read_examples, templates=templates)
        train, dev, inputs = self.read_sets(read, lambda example: example.opening)
        inputs += [("templates", str(path)) for path in files]
        return [*checkpoint, train, dev, templates], inputs


class Prefixes(PrefixConfig, Generation):
    """Prefixes for a frozen T5."""

    description = """\
Prefix-tunes a frozen T5 (Li and Liang 2021) to express the acts of a system turn. Its input is that of ft_t5."""
    preset: str | None = family.preset(
        sgsacc={**SGSACC, "prefix_length": 10, "prefix_embedding": 512, "prefix_size": 384}
    )


class PredictUtterances(SetOptions, GenerationPrediction, family.PredictTrained):
    """A prediction of utterances."""

    description = """\
Writes an utterance for the acts of each system turn: OUT/predictions/original/SPLIT/utterances.jsonl."""
    variants_text = options.SCHEMA_VARIANTS
    sets_text = "other corpora: entities=unseen"
    count_in, count_out, shown = "turns", "said", ("said", "turn")
    warnings = WARNINGS

    def check(self) -> family.Prediction:
        """Checks the model, the sets and the scorer. Raises InputError if they cannot be used."""
        sources = self.sources()
        if self.beams is not None and self.beams < self.candidates:
            raise InputError(f"must be at least as many as --candidates, {self.candidates}", "--beams")
        self.check_device("transformers")
        from parapet.evaluation.generation.corpus import read_templates
        from parapet.evaluation.models.generation import data, inference, net

        card, _ = net.check(self.model, self.model_name, self.checkpoint)
        templates, files = read_templates(self.templates) if self.templates else (card.templates, [])
        sets, split = tuple(data.sources(sources, templates)), sources.split
        paths = {inference.relative_of(source.name, split): source.name for source in sets}
        reranker = self.reranker(paths) if self.rerank else None
        candidates = max(1, self.candidates) if reranker else self.candidates
        search = inference.Search(self.batch_size, self.beams or max(1, candidates), candidates)
        scorer = reranker and inference.scorer_of(reranker.scorer, reranker.folder, reranker.batch_size).model
        recorded = {"split": split, "sets": list(paths.values()), "beams": search.beams, "candidates": candidates}
        others = [(name, f"{folder}/{path}") for folder in self.also * bool(reranker) for path, name in paths.items()]
        header = self.header(
            {**recorded, "rerank": scorer},
            also=[{"set": name, "sha256": family.named_digest(path)["sha256"]} for name, path in others],
            templates=[family.named_digest(str(path)) for path in files],
            inputs=[
                {"set": source.name, **family.named_digest(file.path), "name": file.relative}
                for source in sets
                for file in source.files
            ],
        )
        job = self.job(inference.Job, search=search, sets=sets, split=split, reranker=reranker)
        return family.Prediction(job, header, paths)

    def reranker(self, files: Iterable[str]) -> Reranker:
        """Returns what chooses among candidates. Raises InputError if it cannot."""
        from parapet.evaluation.models.generation.inference import Reranker

        if self.rerank == "nli" and self.nli_model is None:
            raise InputError("is required: give a folder with a model", "--nli_model")
        if self.candidates < 2 and not self.also:
            raise InputError("has nothing to choose from: give --candidates 2 or more, or --also", "--rerank")
        for path in (as_path(folder) / file for folder in self.also for file in files):
            if not is_there(path):
                raise InputError("there is no such file: a set has no predictions", path, "--also")
        return Reranker(self.rerank or "", self.nli_model or "", self.batch_size, tuple(self.also))


class PredictByPrefixes(PrefixPrediction, PredictUtterances):
    """A prediction by prefixes, which need the T5 that they were trained with."""
