"""What a step has to do, in counts that its cost grows with, and how much it will write.

Each function below is of one pipeline: from its flags and the amounts of its inputs to counts such as ``turns`` or
``MB written``. What one of these costs is in the table of ``costs.py``; both must use the same names.
"""

from __future__ import annotations

import itertools
import tomllib
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from parapet.pipelines.suite import amounts
from parapet.pipelines.suite.amounts import Amounts, Contents, total
from parapet.pipelines.suite.steps import Step
from parapet.schemas.layout import SPLITS, TEST, TRAIN, sample_root
from parapet.transforms.speech import RATIOS, SAMPLE

_KINDS = ("typos", "verbose", "simple", "paraphrase")
_BASELINES = ("keywords", "parapet.evaluation.dst.baseline:Keywords")

# User turns and megabytes of a simulated dialogue, in the SGD format, and in the format of bAbI.
_OF_REMINDERS = Amounts(megabytes=0.0136, dialogues=1, turns=6.8, touched=1, services=1, domains=1, elements=8)
_OF_TASKS = {
    task: Amounts(megabytes=size, dialogues=1, turns=turns, touched=1, services=1, domains=1, elements=10)
    for task, turns, size in (
        ("1", 3.8, 0.0055),
        ("2", 6.8, 0.0107),
        ("3", 6.5, 0.0123),
        ("4", 3.6, 0.0056),
        ("5", 12.8, 0.0224),
    )
}


class NotEstimated(Exception):
    """Nothing is known of what a step would cost. Its text is the reason."""


class Work(msgspec.Struct, frozen=True):
    """What a step has to do.

    Attributes:
      row: of the table of costs.
      counts: what it costs is a linear function of these.
      output: what it will write that other steps read.
      reason: why its cost cannot be estimated, though its output can; empty where it can.
    """

    row: str
    counts: dict[str, float]
    output: Contents = {}
    reason: str = ""


class Inputs:
    """The inputs of steps: as they are on the disk, or as predicted for steps that have not run.

    Args:
      folder: where relative paths start.
      output: of the suite.
      sets_of: the sets that a perturbation makes, and whether each has a folder.
    """

    def __init__(self, folder: Path, output: Path, sets_of: Callable[..., tuple[Iterable[str], bool]]) -> None:
        self.folder, self.output, self.sets_of = folder, output, sets_of
        self.predicted: dict[str, Contents | None] = {}  # by step; None where nobody knows
        self._counted: dict[str, Contents] = {}

    def at(self, path: str | None) -> Contents:
        """What is at a path; at none, in the bundled sample. Raises NotEstimated."""
        text = str(path or sample_root())
        if "://" in text:
            raise NotEstimated(f"reads {text}, which is not counted")
        place = Path(self.folder, text).absolute()
        if place.is_relative_to(self.output):
            relative = place.relative_to(self.output).as_posix()
            above = itertools.accumulate(relative.split("/"), "{}/{}".format)
            if owner := max((step for step in above if step in self.predicted), key=len, default=""):
                contents = self.predicted[owner]
                if contents is None:
                    raise NotEstimated(f"needs {owner}, whose output cannot be predicted")
                return amounts.below(contents, relative.removeprefix(owner).lstrip("/"))
        if text not in self._counted:
            self._counted[text] = amounts.count(place)
        return self._counted[text]

    def corpus(self, path: str | None, names: str | Iterable[str] = SPLITS) -> dict[str, Amounts]:
        """Splits of a corpus, with names separated by commas."""
        return amounts.splits(self.at(path), names.split(",") if isinstance(names, str) else tuple(names))

    def variants(self, path: str | None, chosen: str = "") -> dict[str, dict[str, Amounts]]:
        """The variants in a folder, or those of them that are named, separated by commas."""
        found = amounts.variants(self.at(path))
        return {name: one for name, one in found.items() if not chosen or name in chosen.split(",")}


def work_of(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    """What a step has to do. Raises NotEstimated.

    Args:
      step: the step.
      flags: as its command parses them.
      inputs: of all steps before it.
    """
    if step.pipeline in ("train", "predict"):
        raise NotEstimated(f"how long '{' '.join(step.command)}' takes depends on the model")
    find = _WORK.get(" ".join(step.command)) or _WORK.get(step.pipeline)
    if find is None:
        raise NotEstimated(f"'parapet {' '.join(step.command)}' has not been measured")
    try:
        return find(step, flags, inputs)
    except (ValueError, ArithmeticError):  # the step itself will say which of its options is none
        raise NotEstimated(f"an option of '{' '.join(step.command)}' is not what it takes") from None


def _perturb(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    name = step.command[1]
    corpus = inputs.corpus(flags.sgd, flags.split)
    options = {key: value for key, value in step.options.items() if key not in ("sgd", "split")}
    sets, in_folders = inputs.sets_of(name, options)
    output = {f"{one}/{split}" if in_folders else split: found for one in sets for split, found in corpus.items()}
    reason = "" if name in _KINDS else f"the perturbation {name} has not been measured"
    return _varied([name], total(corpus.values()), output, reason)


def _language_variations(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    corpus = inputs.corpus(flags.sgd, flags.split)
    kinds = _listed(flags.kinds) or list(_KINDS)
    mixes = [] if flags.env == "none" else _listed(flags.env)
    sets = [f"{kind}{mix}" for kind in kinds for mix in ("", *(f"-env{i + 1}" for i in range(len(mixes))))]
    output = {f"{one}/{split}": found for one in sets for split, found in corpus.items()}
    engine = flags.engine if "paraphrase" in kinds and flags.engine not in (None, "rules", "memory") else ""
    return _varied(kinds, total(corpus.values()), output, f"the engine {engine} has its own speed" if engine else "")


def _varied(kinds: Iterable[str], corpus: Amounts, output: Contents, reason: str) -> Work:
    turns = {f"turns {kind}": corpus.turns for kind in kinds if kind in _KINDS}
    return Work("language_variations", {**turns, "MB written": total(output.values()).megabytes}, output, reason)


def _unseen_entities(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    corpus = inputs.corpus(flags.sgd, flags.split)
    training = total(inputs.corpus(flags.training or flags.sgd, TRAIN).values())
    return Work("unseen_entities", {"turns": total(corpus.values()).turns, "turns of training": training.turns}, corpus)


def _ood(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    corpus, rates = inputs.corpus(flags.sgd, flags.split), [float(rate) for rate in _listed(flags.rates)]
    here = total(corpus.values())
    own = flags.source == "own"
    source = total(inputs.corpus(flags.sgd).values()).turns if own else total(inputs.at(flags.source).values()).others
    output = {
        f"ood-{round(rate * 100)}/{split}": msgspec.structs.replace(
            one, turns=one.turns * (1 + rate), megabytes=one.megabytes * (1 + 0.4 * rate)
        )
        for rate in rates
        for split, one in corpus.items()
    }
    counts = {"turns to choose from" if own else "MB to choose from": source, "turns": here.turns * len(rates)}
    return Work("ood", {**counts, "turns inserted": here.turns * sum(rates)}, output)


def _speech_errors(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    corpus, rates = inputs.corpus(flags.sgd, flags.split), _listed(flags.wer)
    output = {f"SR-{round(float(rate) * 100)}/{split}": one for rate in rates for split, one in corpus.items()}
    engines = {flags.engine, flags.speaker, flags.listener} - {"embedded", None}
    reason = f"the engine {' and '.join(sorted(engines))} has its own speed" if engines else ""
    # A sample is heard at each ratio, to calibrate; every other turn at some of them (docs/speech_errors.md).
    turns, ratios = total(corpus.values()).turns, len(_listed(flags.snr or RATIOS))
    sample = min(turns, 0 if flags.calibration else flags.sample or SAMPLE)
    return Work("speech_errors", {"turns heard": ratios * (sample + (turns - sample) / 2)}, output, reason)


def _rewrite(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    corpus, variants = inputs.corpus(flags.sgd), inputs.variants(flags.variants, flags.variant)
    output = {
        f"{name}/{split}": corpus[split].under(schema)
        for name, one in variants.items()
        for split, schema in one.items()
        if split in corpus
    }
    services = sum(schema.services for one in variants.values() for schema in one.values())
    counts = {"MB": total(corpus.values()).megabytes, "services": services}
    return Work("rewrite", {**counts, "MB written": total(output.values()).megabytes}, output)


def _augment(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    corpus = total(inputs.corpus(flags.sgd, flags.split).values())
    sources = {"none": 0, "corrupted": len(_listed(flags.corruptions))}
    for kind in ("backtrans", "oracle"):
        if folder := getattr(flags, kind):
            sources[kind] = len(inputs.variants(folder, flags.variant))
    sets = _listed(flags.sets) or list(sources)
    copies = {one: 1 + sum(sources.get(part, 0) for part in one.split("+")) for one in sets}
    output = {f"{name}/{flags.split}": corpus.times(n) for name, n in copies.items()}
    made = 1 + sum(sources.values())
    counts = {"MB made": corpus.megabytes * made, "services": corpus.services * made}
    return Work("augment", {**counts, "MB written": total(output.values()).megabytes}, output)


def _few_shot(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    corpora = inputs.corpus(flags.sgd)
    train, test = (corpora.get(split, Amounts()) for split in (flags.train_split, flags.test_split))
    domains = _listed(flags.domains) or [f"domain {i}" for i in range(round(train.domains))]
    output = {}
    for domain in domains:
        for size in [*_listed(flags.sizes), TEST]:
            source, wanted = (test, flags.test) if size == TEST else (train, int(size))
            there = source.dialogues / max(train.domains, 1)
            share = min(wanted, there) / source.dialogues if source.dialogues else 0.0
            output[f"{domain}/{size}/train" if size != TEST else f"{domain}/test"] = source.times(share)
    read = train.megabytes + test.megabytes
    return Work("few_shot", {"MB": read, "MB written": total(output.values()).megabytes}, output)


def _unseen_services(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    corpus = inputs.corpus(flags.sgd)
    test = corpus.get(flags.test_split or TEST, Amounts())
    there = test.domains if flags.by == "domain" else test.services
    held = _listed(flags.hold_out) or [f"{flags.by} {i}" for i in range(round(there))]
    touching = min(max(test.touched, 1.0) / there, 1.0) if there else 0.0  # the share of dialogues with one of them
    output = {}
    for name in held:
        for split, one in corpus.items():
            output[f"{name}/{split}"] = one.times(touching if one is test else 1 - touching)
        if flags.test_seen:
            output[f"{name}/test_seen"] = test.times(1 - touching)
    read = total(corpus.values()).megabytes
    return Work("unseen_services", {"MB": read, "MB written": total(output.values()).megabytes}, output)


def _back_translate(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    schemas, pivots = inputs.corpus(flags.schemas), _listed(flags.pivots)
    reason = "" if flags.engine == "memory" else f"the engine {flags.engine} has its own speed"
    elements = sum(one.elements + one.services for one in schemas.values())
    return Work("back_translate", {"texts": elements * len(pivots)}, _schemas(pivots, schemas), reason)


def _compose(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    schemas = inputs.corpus(flags.schemas)
    responses = flags.responses or [sample_root() / "crowd" / name for name in ("names.csv", "descriptions.csv")]
    answers = total(one for path in responses for one in inputs.at(path).values()).answers
    output = _schemas([f"v{i}" for i in range(1, 6)], schemas)
    return Work("compose", {"answers": answers, "services": total(schemas.values()).services}, output)


def _schemas(names: Iterable[str], schemas: Contents) -> Contents:
    """Variants of schemas; dialogues are not among them."""
    return {f"{name}/{split}": Amounts().under(one) for name in names for split, one in schemas.items()}


def _compose_variations(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    responses = flags.responses or [sample_root() / "crowd" / "rewrites.csv"]
    answers = total(one for path in responses for one in inputs.at(path).values()).answers
    return Work("compose_variations", {"answers": answers})


def _statistics(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    splits = inputs.corpus(flags.sgd, flags.split or SPLITS)
    variants = inputs.variants(flags.variants) if flags.variants else {"": splits}
    return Work("statistics", {"elements": len(variants) * sum(one.elements for one in splits.values())})


def _hits(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    if flags.task != "schemas":
        raise NotEstimated(f"'hits --task {flags.task}' has not been measured")
    return Work("hits", {"services": total(inputs.corpus(flags.schemas).values()).services})


def _reminders(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    sizes = dict(zip(SPLITS, map(float, _listed(flags.dialogues)), strict=False))
    output = {split: _OF_REMINDERS.times(size) for split, size in sizes.items() if size}
    return Work("reminders", {"dialogues": sum(sizes.values())}, output)


def _restaurants(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    sizes = dict.fromkeys((*SPLITS, "oov"), 1000.0)
    for part in _listed(flags.sizes):
        name, equals, number = part.partition("=")
        sizes |= {name: float(number)} if equals else dict.fromkeys(sizes, float(part))
    output = {}
    for task in _listed(flags.tasks) or list(_OF_TASKS):
        for form in ("", "-plus") if flags.babi_plus else ("",):
            for split, size in sizes.items():
                place = f"sgd/task{task}{form}-oov/test" if split == "oov" else f"sgd/task{task}{form}/{split}"
                output[place] = _OF_TASKS.get(task, _OF_TASKS["5"]).times(size)
    formats = _listed(flags.formats)
    here = total(output.values())
    return Work(
        "restaurants", {"turns": here.turns, **({"turns in SGD": here.turns} if "sgd" in formats else {})}, output
    )


def _anonymise(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    if flags.spacy_model:
        raise NotEstimated(f"the model {flags.spacy_model} has its own speed")
    chats = flags.chats or [sample_root() / "chats.jsonl"]
    return Work("anonymise", {"MB": total(one for path in chats for one in inputs.at(path).values()).others})


def _evaluate_dst(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    scored = _scored(flags, inputs)
    turns = sum(one.turns for one in scored.values())
    resampled = _resampled(scored, flags.replicates)
    counts = {"sets": float(len(scored)), "turns": turns, "dialogues and 1,000 replicates": resampled}
    if flags.model:
        counts["turns of Keywords"] = turns
    reason = f"how long {flags.model} takes depends on the model" if flags.model not in (None, *_BASELINES) else ""
    return Work("evaluate dst", counts, {f"rows/{name}": one for name, one in scored.items()}, reason)


def _evaluate_generation(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    scored = _scored(flags, inputs)
    counts = {"sets": float(len(scored)), "turns": sum(one.turns for one in scored.values())}
    reason = "" if flags.scorer == "lexical" else f"how long the scorer {flags.scorer} takes depends on its model"
    return Work("evaluate generation", counts, {f"rows/{name}": one for name, one in scored.items()}, reason)


def _evaluate_validity(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    scored = [total(inputs.corpus(given.partition("=")[2], flags.split).values()) for given in flags.sets or ()]
    reason = "how long a classifier takes depends on the model" if flags.classifier else ""
    return Work("evaluate validity", {"turns": sum(one.turns for one in scored)}, {}, reason)


def _scored(flags: Namespace, inputs: Inputs) -> dict[str, Amounts]:
    """The original, the variants and the sets of an evaluation, by name. A variant may be a schema alone."""
    original = total(inputs.corpus(flags.reference, flags.split).values())
    scored = {"original": original}
    if flags.variants:
        for name, one in inputs.variants(flags.variants, flags.variant).items():
            found = total(amounts.splits(one, [flags.split]).values())
            scored[name] = found if found.turns else original.under(found)
    for given in flags.sets:
        name, _, path = given.partition("=")
        scored[name] = total(inputs.corpus(path, flags.split).values())
    return scored


def _compare(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    counts = {"sets": 0.0, "turns": 0.0, "dialogues and 1,000 replicates": 0.0}
    for given in flags.systems:
        rows = {name: one for name, one in inputs.at(given.rpartition("=")[2]).items() if one.turns}
        if not rows:
            raise NotEstimated("how many turns were scored is not known")
        counts["sets"] += len(rows)
        counts["turns"] += total(rows.values()).turns
        counts["dialogues and 1,000 replicates"] += _resampled(rows, flags.replicates)
    return Work("compare", counts)


def _resampled(scored: Contents, replicates: int) -> float:
    """How many dialogues are drawn in all replicates, in thousands."""
    return sum(one.dialogues for one in scored.values()) * replicates / 1000


def _release_build(step: Step, flags: Namespace, inputs: Inputs) -> Work:
    place = Path(inputs.folder, flags.config)
    text = step.files.get(place.name) or place.read_text(encoding="utf-8")
    corpora = tomllib.loads(text).get("corpora", [])
    every: dict[str, Amounts] = {}
    for entry in corpora:
        path = str(place.parent / entry["path"])
        found = inputs.variants(path)
        every |= {f"{path}/{name}/{split}": one for name, splits in found.items() for split, one in splits.items()}
    here = total(every.values())
    return Work("release build", {"MB": here.megabytes, "turns": here.turns})


def _listed(text: str | None) -> list[str]:
    return [part for part in (text or "").replace(" ", "").split(",") if part]


_WORK: Mapping[str, Callable[[Step, Namespace, Inputs], Work]] = {
    "anonymise": _anonymise,
    "augment": _augment,
    "back_translate": _back_translate,
    "compare": _compare,
    "compose": _compose,
    "compose_variations": _compose_variations,
    "evaluate dst": _evaluate_dst,
    "evaluate generation": _evaluate_generation,
    "evaluate validity": _evaluate_validity,
    "few_shot": _few_shot,
    "hits": _hits,
    "language_variations": _language_variations,
    "ood": _ood,
    "perturb": _perturb,
    "release build": _release_build,
    "reminders": _reminders,
    "restaurants": _restaurants,
    "rewrite": _rewrite,
    "speech_errors": _speech_errors,
    "statistics": _statistics,
    "unseen_entities": _unseen_entities,
    "unseen_services": _unseen_services,
}
