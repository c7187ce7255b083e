"""The measures of SGD-X (Lee et al. 2022) for the distance of variants from their original.

See Table 1 and the section "Dataset Statistics".

- *Names seen*: the share of the names in services missing from train that occur among train's original names. A name
  counts once for each service that has it; in this reading, SGD's 15 unseen test services give the published 65 % of
  slots (75 of 116) and 71 % of intents (20 of 28). Distinct names would give 57 % and 70 %. MultiWOZ repeats the
  service in its slots' names, ``hotel-area``: that part is left out.
- *Name distance*: mean of 1 - Levenshtein.ratio(original, paraphrase) over the names of intents and slots.
- *Description BLEU*: corpus BLEU of a variant's descriptions (services', intents', slots') against the original's,
  lower-cased, with punctuation split off.
- *Boolean slots described alike*: the share of their descriptions that begin with one of their two most frequent
  first words. It is 100 % in SGD, where the words are "Boolean" and "Whether".
- *Self-BLEU*: mean, over ordered pairs of variants, of the corpus BLEU of one against the other. Of all readings, this
  comes closest to the published 4.5.

docs/papers.md has the readings that were tried. Elements are matched by position. Sums are exactly rounded, so the
order of services has no effect. Beam is only imported when it is used, so that wrong input is reported immediately.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec

from parapet.schemas import layout
from parapet.schemas.errors import InputError
from parapet.schemas.service import Service
from parapet.transforms.core.fence import needed
from parapet.transforms.report.numbers import Metric, Numbers, sections_of
from parapet.transforms.report.report import Bars, Dot, Report, Section, Tile
from parapet.transforms.report.text import aligned, counted, number, percent
from parapet.transforms.variants import matching
from parapet.transforms.variants.distance import levenshtein_ratio

TOKENIZER = "intl"  # of sacrebleu's tokenizers, the closest to the BLEU and self-BLEU published in SGD-X
ORIGINAL = ""  # the original's key beside the variants' names; folders cannot have this name


class Item(msgspec.Struct, frozen=True):
    """A service to measure: the original, its counterpart in each variant, and whether train lacks it."""

    original: Service
    variants: Mapping[str, Service]
    unseen: bool = False

    @property
    def forms(self) -> dict[str, Service]:
        """The original and its variants by name; the original's is ORIGINAL."""
        return {ORIGINAL: self.original, **self.variants}


class Inputs(msgspec.Struct, frozen=True):
    """The services to measure.

    Attributes:
      items: the services with variants; all services if no variants are measured.
      variants: the names of the variants, in natural order.
      split: the split of the services whose names are searched in train.
      train: the services of train; None if there is no train split.
      left_out: the services without a variant.
    """

    items: list[Item]
    variants: list[str]
    split: str
    train: list[Service] | None
    left_out: list[str]


def read_inputs(schemas: Sequence[layout.SplitSchemas], folder: str | Path | None) -> Inputs:
    """Matches the services of variants with the original's.

    Args:
      schemas: the original.
      folder: the folder of variants; None to measure only the original.

    Raises:
      InputError: there are neither variants nor a train split with unseen services, or variants do not match.
    """
    splits = {split.split: split.services for split in schemas}
    train = splits.get(layout.TRAIN)
    split = next((name for name in (layout.TEST, "dev", layout.TRAIN) if name in splits), layout.SINGLE)
    unseen = {service.service_name for service in splits[split]}
    unseen -= {service.service_name for service in (splits[split] if train is None else train)}
    if folder is None and train is None:
        raise InputError("there is no train/schema.json, so it is not known which names occur in train", "--sgd")
    if folder is None and not unseen:
        raise InputError(f"train has all services of {split}, so there are no unseen services to measure", "--sgd")
    matches = {
        name: matching.match_variant(name, [_in_one(path)], path, schemas)
        for name, path in (matching.find_variants(folder) if folder else {}).items()
    }
    matching.check_matched(matches)
    items = []
    left_out = []
    for service in layout.services_by_name([*schemas]).values():
        name = service.service_name
        variants = {
            variant: layout.services_by_name([*matched.targets.values()])[matched.names[name].service]
            for variant, matched in matches.items()
            if name in matched.names
        }
        if variants or not matches:
            items.append(Item(service, variants, name in unseen))
        else:  # it needs more answers, and is in no variant of compose
            left_out.append(name)
        if variants and (missing := [variant for variant in matches if variant not in variants]):
            reasons = [bad[name] for of_split in matches[missing[0]].splits.values() if name in (bad := of_split.bad)]
            reason = f"service {name!r} is in variant {next(iter(variants))}, but not in {missing[0]}: {reasons[0]}"
            raise InputError(reason, "", "--variants")
    return Inputs(items, list(matches), split, train, left_out)


def _in_one(path: Path) -> layout.SplitSchemas:
    """Reads the services of all splits of a variant as those of one schema file."""
    services = layout.services_by_name(layout.read_root(path))
    return layout.SplitSchemas(layout.SINGLE, str(path), [], [*services.values()])


def element_names(service: Service) -> list[str]:
    """Returns the names of intents and slots, by position."""
    return [*(intent.name for intent in service.intents), *(slot.name for slot in service.slots)]


def descriptions_of(service: Service) -> list[str]:
    """Returns the descriptions of the service, its intents and its slots, by position."""
    intents = (intent.description for intent in service.intents)
    return [service.description, *intents, *(slot.description for slot in service.slots)]


def names_seen(services: Iterable[Service], train: Iterable[Service]) -> dict[str, float | None]:
    """Returns the share of names in ``services`` that also occur in ``train``; None if there are no names."""
    services, train = list(services), list(train)
    shares: dict[str, float | None] = {}
    for kind in ("slot", "intent"):
        known = {name for service in train for name in _names(service, kind)}
        seen = [name in known for service in services for name in _names(service, kind)]
        shares[f"{kind}_names_seen"] = sum(seen) / len(seen) if seen else None
    return shares


def _names(service: Service, kind: str) -> list[str]:
    return [element.name.removeprefix(f"{service.service_name}-") for element in getattr(service, f"{kind}s")]


def described_alike(services: Iterable[Service]) -> float | None:
    """Returns the share of boolean slots whose descriptions begin with one of the two most frequent words."""
    openings = Counter(
        (slot.description.lower().split() or [""])[0]
        for service in services
        for slot in service.slots
        if slot.is_categorical and {value.lower() for value in slot.possible_values} == {"true", "false"}
    )
    return sum(n for _, n in openings.most_common(2)) / openings.total() if openings else None


class ServiceMeasures(msgspec.Struct, frozen=True):
    """What a service contributes to the measures.

    Attributes:
      distances: variant to the distances of its names.
      ngrams: (variant, other form) to the counts that corpus BLEU sums up: lengths, matching n-grams, all n-grams.
    """

    distances: dict[str, list[float]]
    ngrams: dict[tuple[str, str], list[int]]


def measure(item: Item) -> ServiceMeasures:
    """Measures one service."""
    with needed("service", item.original.service_name):
        names = {form: element_names(service) for form, service in item.forms.items()}
        texts = {form: descriptions_of(service) for form, service in item.forms.items()}
    return ServiceMeasures(
        {
            variant: [1.0 - levenshtein_ratio(*pair) for pair in zip(names[ORIGINAL], names[variant], strict=True)]
            for variant in item.variants
        },
        {
            (form, other): _ngrams(texts[form], texts[other])
            for form, other in permutations(texts, 2)
            if form != ORIGINAL
        },
    )


def _ngrams(texts: Sequence[str], references: Sequence[str]) -> list[int]:
    bleu = _bleu(of_sentences=True)
    scores = [bleu.sentence_score(text, [reference]) for text, reference in zip(texts, references, strict=True)]
    return _sums([score.sys_len, score.ref_len, *score.counts, *score.totals] for score in scores)


def combine(services: Sequence[ServiceMeasures], variants: Sequence[str]) -> dict[str, Any]:
    """Combines the measures of services.

    Returns:
      ``{"variants": {"v1": {"name_distance", "description_bleu"}, ...}, "average": {...}, "self_bleu"}``: distances
      0-1, BLEU 0-100, None if undefined.
    """
    rows = {
        variant: {
            "name_distance": mean(distance for service in services for distance in service.distances[variant]),
            "description_bleu": _corpus_bleu(service.ngrams[variant, ORIGINAL] for service in services),
        }
        for variant in variants
    }
    return {
        "variants": rows,
        "average": _average(rows),
        "self_bleu": mean(
            _corpus_bleu(service.ngrams[pair] for service in services) for pair in permutations(variants, 2)
        ),
    }


def measures_of(items: Iterable[Item], variants: Sequence[str]) -> dict[str, Any]:
    """Measures services in memory, see :func:`combine`."""
    return combine(list(map(measure, items)), variants)


def _sums(rows: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _corpus_bleu(ngrams: Iterable[Sequence[int]]) -> float:
    bleu, (hypothesis, reference, *counts) = _bleu(), _sums(ngrams)
    matches, totals = counts[: bleu.max_ngram_order], counts[bleu.max_ngram_order :]
    return float(bleu.compute_bleu(matches, totals, hypothesis, reference, bleu.smooth_method).score)


@cache
def _bleu(of_sentences: bool = False) -> Any:
    from sacrebleu.metrics.bleu import BLEU  # imported late because it takes a quarter of a second

    # For a sentence, only n-gram orders up to its length count. force avoids a warning about tokenized text.
    return BLEU(lowercase=True, tokenize=TOKENIZER, effective_order=of_sentences, force=True)


def bleu_signature() -> str:
    """Returns sacrebleu's signature of the settings, to quote beside the numbers."""
    bleu = _bleu()
    bleu.corpus_score(["a"], [["a"]])  # the signature only exists after a score was computed
    return str(bleu.get_signature())


def statistics_of(inputs: Inputs, services: Sequence[ServiceMeasures]) -> dict[str, Any]:
    """Returns the content of ``statistics.json``: shares and distances 0-1, BLEU 0-100, rounded to six places.

    Without variants, only the original has numbers.

    Args:
      inputs: the services.
      services: the measures of each.
    """
    measured = combine(services, inputs.variants)
    unseen = [item.forms for item in inputs.items if item.unseen]
    shares = {
        key: names_seen((forms[key] for forms in unseen), inputs.train or ()) for key in (ORIGINAL, *inputs.variants)
    }
    rows = {variant: {**shares[variant], **measured["variants"][variant]} for variant in inputs.variants}
    alike = {
        form or "original": described_alike(item.forms[form] for item in inputs.items)
        for form in (ORIGINAL, *inputs.variants)
    }
    numbers = {**measured, "variants": rows, "average": _average(rows), "booleans_described_alike": alike}
    about = {
        "split": inputs.split,
        "services": len(inputs.items),
        "unseen_services": len(unseen),
        "services_without_variants": inputs.left_out,
        "bleu_signature": bleu_signature(),
    }
    return {**rounded({"original": shares[ORIGINAL], **numbers}), **about}


def statistics_files(inputs: Inputs, services: Sequence[ServiceMeasures]) -> Iterator[tuple[str, bytes]]:
    """Yields the output: statistics.json and report.html."""
    from apache_beam.metrics import Metrics

    from parapet.transforms.report.report import page

    statistics = statistics_of(inputs, services)
    Metrics.counter("parapet", "services").inc(len(inputs.items))
    yield "statistics.json", (json.dumps(statistics, indent=2) + "\n").encode()
    yield "report.html", page(statistics_report(statistics)).encode()


def rounded(value: Any) -> Any:
    """Rounds the numbers of a JSON value to six places, since the last bits differ between platforms."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def _average(rows: Mapping[str, Mapping[str, float | None]]) -> dict[str, float | None]:
    keys = list(dict.fromkeys(key for row in rows.values() for key in row))
    return {key: mean(row[key] for row in rows.values()) for key in keys}


def mean(values: Iterable[float | None]) -> float | None:
    """Returns the mean of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    # fsum is exactly rounded, so the order of services has no effect
    return math.fsum(known) / len(known) if known else None


Measured = Mapping[str, float | None]

_SEEN = "The share of the names of unseen services that occur in train. The lower, the harder."
MEASURES = {
    "slot_names_seen": Metric("slot_names_seen", "slots seen", meaning=_SEEN, percent=True, digits=0),
    "intent_names_seen": Metric("intent_names_seen", "intents seen", meaning=_SEEN, percent=True, digits=0),
    "name_distance": Metric(
        "name_distance",
        "name distance",
        meaning="1 − Levenshtein ratio of a name and its paraphrase, the mean over all intents and slots: 0 is the "
        "same, 1 has nothing in common.",
        digits=2,
    ),
    "description_bleu": Metric(
        "description_bleu",
        "BLEU",
        meaning="Word sequences that a variant's descriptions share with the original's: 100 is the same, 0 has "
        "nothing in common.",
        digits=1,
    ),
}


def terms_of(measures: Iterable[str]) -> dict[str, str]:
    """Returns the explanations of measures, and that of self-BLEU, which all variants have together."""
    self_bleu = "BLEU of the variants' descriptions against each other, the mean over ordered pairs. Low means diverse."
    return {**{MEASURES[name].label: MEASURES[name].meaning for name in measures}, "self-BLEU": self_bleu}


def statistics_report(statistics: Mapping[str, Any]) -> Report:
    """Makes the report of ``parapet statistics`` from the content of its statistics.json."""
    variants, average, original = statistics["variants"], statistics["average"], statistics["original"]
    split, unseen = statistics["split"], statistics["unseen_services"]
    whose = f"the {counted(unseen, 'service')} of {split} that train lacks" if unseen else "no service: train has all"
    services = f"{counted(statistics['services'], 'service')} in {counted(len(variants), 'variant')}. "
    tiles = [Tile("self-BLEU", number(statistics["self_bleu"], 1))] if variants else []
    if (alike := statistics["booleans_described_alike"]["original"]) is not None:
        tiles.append(Tile("boolean slots described alike", percent(alike, 0)))
    left_out = statistics["services_without_variants"]
    shown = ", ".join(left_out[:12]) + (", …" if len(left_out) > 12 else "")
    return Report(
        command="statistics",
        title="Variant statistics" if variants else "Names seen in train",
        headline="How far the variants are from the original" if variants else "Which names of unseen services are new",
        lead=f"{services if variants else ''}Names seen in train are counted over {whose}.",
        tiles=tiles,
        sections=[
            *distance_charts(variants),
            measures_table(
                "Measures by variant, as in Table 1 of SGD-X",
                {"original": original, **variants},
                average if variants else None,
                MEASURES if variants else original,
            ),
        ],
        terms=terms_of(MEASURES) if variants else {"slots seen, intents seen": _SEEN},
        notes=[f"{counted(len(left_out), 'service')} of the original in no variant and not counted: {shown}."]
        if left_out
        else [],
        links={"statistics.json": f"all numbers; BLEU by sacrebleu, `{statistics['bleu_signature']}`"},
    )


def text_table(statistics: Mapping[str, Any]) -> str:
    """Formats the numbers of statistics.json for the terminal, with one line per variant."""
    variants = statistics["variants"]
    rows = {"original": statistics["original"], **variants, **({"average": statistics["average"]} if variants else {})}
    columns = {"slots seen": ("slot_names_seen", ".1%"), "intents seen": ("intent_names_seen", ".1%")}
    if variants:
        columns |= {"name distance": ("name_distance", ".3f"), "description BLEU": ("description_bleu", ".2f")}
    lines = measure_lines(rows, columns)
    if variants:
        lines.append(f"self-BLEU {_form(statistics['self_bleu'], '.2f')}")
    return "\n".join(lines)


def measure_lines(rows: Mapping[str, Measured], columns: Mapping[str, tuple[str, str]]) -> list[str]:
    """Formats numbers as lines of text: a row per name, and a column per heading, given its key and format."""
    cells = [[name, *(_form(row.get(key), form) for key, form in columns.values())] for name, row in rows.items()]
    return aligned([["", *columns], *cells]).split("\n")


def _form(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def measures_table(
    title: str, variants: Mapping[str, Measured], average: Measured | None, keys: Iterable[str], note: str = ""
) -> Section:
    """Makes a table with a row for each variant.

    Args:
      title: the title of the table.
      variants: name to its numbers; missing ones are shown as a dash.
      average: the numbers of the last row.
      keys: the columns, keys of ``MEASURES``.
      note: shown above the table.
    """
    rows = {**variants, **({} if average is None else {"Average": average})}
    metrics = [MEASURES[key] for key in keys]
    (table,) = sections_of({"variants": rows}, Numbers(title, "variants/*", ("variant",), metrics, note=note))
    return table


def distance_charts(variants: Mapping[str, Measured]) -> Iterator[Bars]:
    """Yields charts of name distance and BLEU by variant."""
    for key, title, digits in (("name_distance", "Name distance", 2), ("description_bleu", "BLEU of descriptions", 1)):
        if dots := [Dot(name, value) for name, row in variants.items() if (value := row.get(key)) is not None]:
            yield Bars(title=title, dots=dots, digits=digits)
