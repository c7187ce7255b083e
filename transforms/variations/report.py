"""The statistics, the page and the card of language variations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from parapet.transforms.exact_rates import size_of
from parapet.transforms.markdown import code
from parapet.transforms.report import Dot, Dots, Example, Examples, Line, Report, Section, Table, Text, Tile, edited
from parapet.transforms.text import counted, percent
from parapet.transforms.translation.paraphraser import PARAPHRASED
from parapet.transforms.variations.rewording import RULES

if TYPE_CHECKING:
    from parapet.transforms.counts import Counts
    from parapet.transforms.variations.perturbations import LanguageVariations

TERMS = {
    "Can be varied": "User turns for which the kind has a rule that applies safely, or words that keep every value. "
    "All other turns are unchanged.",
    "Env": "A mix: exactly this share of all user turns is varied, rounded to the turn; where the kind can vary fewer, "
    "all of these. The turns of Env-1 are among those of Env-2, and so on.",
    "Per word": "Operations for each word of all user turns, changed or not.",
    "Characters edited": "For each operation, the characters that it removed or added, whichever are more.",
}
HOW = {
    "typos": "Typing errors: a letter left out, a neighbouring key, a doubled letter, two letters swapped, a lost "
    "space; and chat abbreviations. Never in numbers, times, money, yes, no and negations; never in a first letter.",
    "verbose": "A filler before the turn and one after it, chosen by hash whatever the turn says; full forms "
    "inside it.",
    "simple": "Fillers and politeness left out, requests reduced to what is requested; a yes, a no or thanks reduced "
    "to a word or two. Only where a rule applies safely.",
    "paraphrase": "Requests, questions and replies in another form, and synonyms, by rules; every value is kept, and "
    "no negation or confirmation changes.",
}
HOW_TRANSLATED = (
    "Translated into another language and back, where every value is kept and no negation or confirmation changes."
)
HOW_BY_MODEL = "By a model that paraphrases, where every value is kept and no negation or confirmation changes."
HOW_REWRITTEN = {
    "typos": "With typing errors made by people, or by a model.",
    "verbose": "At more length, by people or by a model.",
    "simple": "More simply, by people or by a model.",
    "paraphrase": "In other words, by people or by a model.",
}
REASONS = {
    "bad_span": "a span lies outside the utterance",
    "torn_span": "a value would be damaged",
    "no_word": "no word may be changed",
    "not_drawn": "no typo was drawn",
    "no_rule": "no rule applies",
    "not_shorter": "the rules do not make it shorter",
    "unchanged": "the result is the same",
    "not_rewritten": "nobody rewrote it",
    "copy": "the other words are the same words",
    "value_lost": "a value was lost",
    "value_unclear": "the place of a value is unclear",
    "meaning": "a negation or a confirmation changed",
    "not_translated": "it was not translated",
}
OPERATIONS = {
    "neighbour": "neighbouring key",
    "full_form": "full form",
    "lost_space": "lost space",
    "by_acts": "reduced to its dialogue acts",
    "dropped_sentence": "sentence left out",
    "full_stop": "full stop",
    "back_translated": "back-translated",
}
_SUMS = (
    "turns",
    "varied",
    "words",
    "characters_before",
    "characters_after",
    "characters_edited",
    "spans",
    "spans_perturbed",
)


def statistics(variations: LanguageVariations, counts: Counts) -> dict[str, Any]:
    """The content of ``statistics.json``."""
    kinds = variations.kinds
    return {
        "odd_spans": counts.sum("odd_spans", set=kinds[0]),
        "rewritten": _of_lines(kinds, counts),
        "kinds": {kind: _of_kind(variations, kind, counts) for kind in kinds},
    }


def _of_kind(variations: LanguageVariations, kind: str, counts: Counts) -> dict[str, Any]:
    numbers: dict[str, Any] = {name: counts.sum(name, set=kind) for name in _SUMS}
    numbers["changed"] = _share(numbers["varied"], numbers["turns"])
    operations = counts.by("value", "operation", set=kind)
    total = sum(operations.values())
    numbers["operations"] = {
        name: {"count": n, "share": _share(n, total), "per_word": _share(n, numbers["words"])}
        for name, n in operations.items()
    }
    varied = counts.by("value", "domain_varied", set=kind)
    numbers["domains"] = {
        name: {"turns": n, "varied": varied.get(name, 0), "changed": _share(varied.get(name, 0), n)}
        for name, n in counts.by("value", "domain_turns", set=kind).items()
    }
    numbers["reasons"] = counts.by("value", "reason", set=kind)
    numbers["sources"] = counts.by("value", "source", set=kind)
    envs = zip(variations.env_names(kind), variations.envs, strict=True)
    numbers["envs"] = {name: _of_env(name, kind, rate, counts) for name, rate in envs}
    return numbers


def _of_env(name: str, kind: str, rate: str, counts: Counts) -> dict[str, Any]:
    splits = {}
    turns = counts.by("split", "turns", set=kind)
    replaced = counts.by("split", "replaced", set=name)
    varied = counts.by("split", "varied", set=kind)
    for split, of_split in turns.items():
        n, requested = replaced.get(split, 0), size_of(rate, of_split)
        splits[split or "-"] = {
            "user_turns": of_split,
            "can_be_varied": varied.get(split, 0),
            "requested": requested,
            "replaced": n,
            "short": requested - n,
            "share": _share(n, of_split),
        }
    return {"rate": float(rate), "splits": splits}


def _of_lines(kinds: Sequence[str], counts: Counts) -> dict[str, Any] | None:
    """What became of the lines of rewritten turns, where there are some."""
    lines = counts.by("set", "lines")
    if not lines:
        return None
    bad = counts.sum("bad_lines")
    return {
        "lines": sum(lines.values()) + bad,
        "bad": bad,
        "kind_not_asked": sum(n for kind, n in lines.items() if kind not in kinds),
        "no_user_turn": counts.sum("lines_without_turn"),
        "with_a_turn": counts.by("set", "lines_with_turn"),
    }


def _share(n: int, total: int) -> float | None:
    return n / total if total else None


def report_of(
    variations: LanguageVariations,
    numbers: Mapping[str, Any],
    examples: Mapping[str, Sequence[Example]],
    options: Mapping[str, object],
) -> Report:
    """The page and the card, given ``statistics.json``."""
    kinds: Mapping[str, Mapping[str, Any]] = numbers["kinds"]
    how = HOW_REWRITTEN if variations.config.rewritten else HOW
    if variations.config.pivots:
        how = {**how, "paraphrase": HOW_BY_MODEL if PARAPHRASED in variations.config.pivots else HOW_TRANSLATED}
    turns = max((kind["turns"] for kind in kinds.values()), default=0)
    sections: list[Section] = [
        Table(
            title="Sets",
            columns=["set", "how", "user turns", "varied", "share", "characters edited", "length"],
            rows=[[kind, how[kind], *_cells(of_kind)] for kind, of_kind in kinds.items()],
            text_columns=2,
        ),
        Dots(
            title="User turns changed, by domain",
            dots=[
                Dot(domain, of_domain["changed"], group=kind)
                for kind, of_kind in kinds.items()
                for domain, of_domain in of_kind["domains"].items()
            ],
        ),
        *_mixes(kinds),
        Table(
            title="Operations",
            columns=["set", "operation", "count", "share", "per word"],
            rows=[
                [kind, OPERATIONS.get(name, name), f"{of['count']:,}", percent(of["share"]), percent(of["per_word"])]
                for kind, of_kind in kinds.items()
                for name, of in of_kind["operations"].items()
            ],
            text_columns=2,
        ),
        *_sources(kinds, numbers),
        Table(
            title="Turns that are unchanged",
            columns=["set", "reason", "user turns"],
            rows=[
                [kind, REASONS.get(reason, reason), f"{n:,}"]
                for kind, of_kind in kinds.items()
                for reason, n in of_kind["reasons"].items()
            ],
            text_columns=2,
        ),
        *(Examples(title=f"Examples of {kind}", examples=examples[kind]) for kind in kinds if examples.get(kind)),
        Text(title="How the sets were made", paragraphs=_how(variations, numbers, options)),
    ]
    odd = numbers["odd_spans"]
    note = f"The text of {counted(odd, 'span')} is no value of the state or the actions: moved like the other spans."
    return Report(
        command="language_variations",
        title="Language variations",
        headline="The same dialogues with user turns in other words",
        lead=f"{counted(turns, 'user turn')}: {', '.join(kinds)}. States and actions are those of the original; spans "
        "move with their values.",
        tiles=[Tile(f"user turns changed, {kind}", percent(of_kind["changed"])) for kind, of_kind in kinds.items()],
        sections=sections,
        terms=TERMS,
        notes=[note] if odd else [],
        links={"statistics.json": "all numbers", "dead_letters.jsonl": "records that could not be used"},
    )


def _cells(of_kind: Mapping[str, Any]) -> list[str]:
    length = of_kind["characters_after"] / of_kind["characters_before"] if of_kind["characters_before"] else None
    counts = [f"{of_kind[name]:,}" for name in ("turns", "varied")]
    return [*counts, percent(of_kind["changed"]), f"{of_kind['characters_edited']:,}", percent(length, 0)]


def _mixes(kinds: Mapping[str, Mapping[str, Any]]) -> list[Section]:
    envs = [pair for of_kind in kinds.values() for pair in of_kind["envs"].items()]
    rows = [
        [
            name,
            split,
            percent(env["rate"], 0),
            *(f"{of[count]:,}" for count in ("user_turns", "can_be_varied", "requested", "replaced", "short")),
            percent(of["share"], 2),
        ]
        for name, env in envs
        for split, of in env["splits"].items()
    ]
    columns = ["set", "split", "rate", "user turns", "can be varied", "requested", "varied", "short", "share"]
    note = " ".join(f"{line_of_mix(name, env)}." for name, env in envs if _sum(env, "short"))
    table = Table(title="Mixes with the originals", columns=columns, rows=rows, text_columns=2, note=note)
    return [table] if rows else []


def line_of_mix(name: str, env: Mapping[str, Any]) -> str:
    """How much of a mix is varied, and by how much that is short of its rate: ``typos-env1: 5 of 49 user turns …``."""
    turns, replaced, short = (_sum(env, count) for count in ("user_turns", "replaced", "short"))
    share = f" ({replaced / turns:.1%})" if turns else ""
    missing = f", {short:,} short of {100 * env['rate']:.4g}%: no other turn can be varied" if short else ""
    return f"{name}: {replaced:,} of {counted(turns, 'user turn')} varied{share}{missing}"


def _sum(env: Mapping[str, Any], count: str) -> int:
    return sum(of[count] for of in env["splits"].values())


def _sources(kinds: Mapping[str, Mapping[str, Any]], numbers: Mapping[str, Any]) -> list[Section]:
    rows = [
        [kind, source, f"{n:,}"]
        for kind, of_kind in kinds.items()
        for source, n in of_kind["sources"].items()
        if source != RULES
    ]
    note = ""
    if lines := numbers["rewritten"]:
        note = (
            f"{counted(lines['lines'], 'rewritten line')}: {sum(lines['with_a_turn'].values()):,} with a user turn, "
            f"{lines['kind_not_asked']:,} of kinds that were not requested, {lines['no_user_turn']:,} without a "
            "user turn, "
            f"{lines['bad']:,} that could not be used."
        )
    columns = ["set", "source", "user turns"]
    return [Table(title="Sources", columns=columns, rows=rows, text_columns=2, note=note)] if rows or note else []


def _how(variations: LanguageVariations, numbers: Mapping[str, Any], options: Mapping[str, Any]) -> list[str]:
    values = (
        "Values may have typos too; states keep the original values, and the rows have both."
        if variations.config.perturb_values
        else "No annotated value is touched."
    )
    lines = [values, f"Seed: {code(variations.seed)}. Splits: {options.get('split', 'all')}."]
    if variations.config.pivots:
        engine = " ".join(str(options[part]) for part in ("provider", "model") if options.get(part))
        through = "" if PARAPHRASED in variations.config.pivots else f"through {', '.join(variations.config.pivots)}, "
        lines.append(f"Paraphrases: {through}engine {code(engine)}.")
    if variations.files is not None:
        names = ", ".join(code(path.rpartition("/")[2]) for path in variations.files.paths)
        lines.append(f"Rewritten turns: {names}.")
    lines.append("`KIND/turns` has a row for every user turn: the text before and after, each edit, each span.")
    return [*lines, "Phrases, abbreviations and rules are Parapet's own; English only."]


def example_of(row: Mapping[str, Any]) -> Example:
    """An example of a row: the operations are marked."""
    edits = [(of["start"], of["end"], of["after"], OPERATIONS.get(of["kind"], of["kind"])) for of in row["operations"]]
    place = f"dialogue {row['dialogue_id']}, turn {row['turn']}"
    return Example(place, [Line("USER", edited(row["original"], edits))])
