"""Numbers of simulated dialogues beside the paper's and the published files', and what splits have in common."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from parapet.transforms.restaurants.disfluencies import KINDS, RATES
from parapet.transforms.restaurants.simulating import Made, Spoken
from parapet.transforms.restaurants.world import SPLITS, World

Key = tuple[int, str, str]  # task, split, what

# Bordes et al. 2017, Table 1: means of a dialogue. The first row is the sum of the others but for task 3, where the
# silences would have to be added. The published files of task 1 have one user and one bot utterance less.
PAPER = {
    1: {"utterances": 12, "user": 5, "bot": 7, "results": 0},
    2: {"utterances": 17, "user": 7, "bot": 10, "results": 0},
    3: {"utterances": 43, "user": 7, "bot": 10, "results": 23},
    4: {"utterances": 15, "user": 4, "bot": 4, "results": 7},
    5: {"utterances": 55, "user": 13, "bot": 18, "results": 24},
}
# The published files of these tasks, the four splits together; measured.
PUBLISHED = {
    1: {"utterances": 10.00, "user": 4.00, "silences": 2.00, "bot": 6.00, "results": 0.0},
    4: {"utterances": 14.02, "user": 3.51, "silences": 0.0, "bot": 3.51, "results": 7.0},
}
COLUMNS = ("dialogues", "user", "silences", "bot", "results")
# The structure of the published files: of tasks 1 and 4 measured on the four splits together, of the others as their
# figures were reported of 1,000 dialogues each; a text where no shares were.
PUBLISHED_STRUCTURE: dict[int, dict[str, Any]] = {
    1: {
        "lines": 6.00,
        "given": {"0": 0.202, "1": 0.196, "2": 0.200, "3": 0.204, "4": 0.199},
        "repeats": 4,
    },
    2: {"lines": 9.5, "given": {"4": 1.0}, "updates": "1 to 4", "ends": {"thank": 1.0}},
    3: {
        "offered": {"3": 0.73, "4": 0.20, "5": 0.07},
        "proposals": {"1": 0.26, "2": 0.18, "3": 0.44, "4": 0.09, "5": 0.03},
    },
    4: {
        "lines": 3.51,
        "asked": {"phone": 0.239, "address": 0.249, "phone+address": 0.511},
        "ends": {"question": 1.0},
        "repeats": 31,
    },
    5: {"given": "1 to 3", "updates": "1 to 3", "ends": {"decline": 1.0}},
}


def tally(world: World, task: int, split: str, made: Made, tallies: Counter[Key]) -> None:
    """Counts a dialogue."""
    spoken = made.spoken
    users = [one.user for one in spoken if one.user]
    numbers = {
        "dialogues": 1,
        "user": len(users),
        "silences": len(spoken) - len(users),
        "bot": len(spoken),
        "results": sum(len(one.results) for one in spoken) * (len(world.names) + len(world.ontology.extras) + 1),
    }
    for name, n in numbers.items():
        tallies[task, split, name] += n
    for name in _drawn(world, task, spoken):
        tallies[task, split, name] += 1


def _drawn(world: World, task: int, spoken: Sequence[Spoken]) -> list[str]:
    """What was drawn in a dialogue, as far as the dialogue shows it."""
    acts = Counter(one.user.act for one in spoken if one.user)
    found = []
    if task != 4:
        (request,) = (one.user for one in spoken if one.user and one.user.act == "request")
        found.append(f"given/{len(request.line.spans)}")
    if task in (2, 5):
        found.append(f"updates/{acts['update']}")
    if task in (3, 5):
        options = max(len(one.results) for one in spoken)
        proposals = acts["reject"] + acts["accept"]
        found += [f"offered/{options}", f"proposals/{proposals}"]
        found += ["options/rejected"] * acts["reject"]
        found += ["options/accepted"] * (proposals < options)  # the last is always accepted
    if task in (4, 5):
        asked = [extra for extra in world.ontology.extras if acts[f"question.{extra}"]]
        found.append(f"asked/{'+'.join(asked)}")
    last = [one.user.act for one in spoken if one.user][-1]
    found.append(f"ends/{last.partition('.')[0]}")
    return found


def repeats(signatures: Iterable[tuple[tuple[int, str], bytes]]) -> dict[Key, int]:
    """How many dialogues of a task and split say what another one before them says.

    Args:
      signatures: ((task, split), eight bytes of each dialogue of a file).
    """
    together: dict[tuple[int, str], list[bytes]] = {}
    for key, data in signatures:
        together.setdefault(key, []).append(data)
    counts: dict[Key, int] = {}
    for (task, split), parts in together.items():
        numbers = np.frombuffer(b"".join(parts), dtype=np.uint64)
        counts[task, split, "repeats"] = len(numbers) - len(np.unique(numbers))
    return counts


def expected(world: World, task: int, sizes: Sequence[tuple[str, int]]) -> dict[str, dict[str, float]]:
    """The shares with which things are drawn in a task, by what and outcome."""
    structure, extras = world.ontology.structure, world.ontology.extras
    shares: dict[str, dict[str, float]] = {}
    if task != 4:
        shares["given"] = _evenly(structure.given_in(task))
    if task in (2, 5):
        shares["updates"] = _evenly(structure.updates_in(task))
    if task == 3 and structure.options:
        shares["offered"] = _offered(world, sizes)
    if task in (3, 5):
        shares["options"] = {"accepted": structure.accepted, "rejected": 1 - structure.accepted}
    if task in (4, 5):
        asked = {extra: (1 - structure.all_extras) / len(extras) for extra in extras}
        everything = "+".join(extras)
        shares["asked"] = {**asked, everything: asked.get(everything, 0.0) + structure.all_extras}
    return shares


def _evenly(numbers: tuple[int, int]) -> dict[str, float]:
    least, most = numbers
    return {str(n): 1 / (most - least + 1) for n in range(least, most + 1)}


def _offered(world: World, sizes: Sequence[tuple[str, int]]) -> dict[str, float]:
    """Over all splits; a split in which no request finds a number has the other numbers more often."""
    shares: dict[str, float] = {}
    dialogues = sum(size for _, size in sizes)
    for split, size in sizes:
        options = world.parts[split].options
        whole = sum(share for _, share in options)
        for requests, share in options:
            number = str(len(world.found[requests[0]]))
            shares[number] = shares.get(number, 0.0) + size / dialogues * share / whole
    return dict(sorted(shares.items(), key=lambda one: int(one[0])))


def structure(task: int, sums: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """What dialogues of a task consist of, simulated and published: shares by outcome, a mean, or a count.

    Args:
      task: 1 to 5.
      sums: its tallies, of all splits.
    """
    published = PUBLISHED_STRUCTURE[task]
    dialogues = sums.get("dialogues", 0)
    parts: dict[str, dict[str, Any]] = {}
    for what in ("lines", "given", "updates", "offered", "proposals", "asked", "ends", "repeats"):
        counts = {name.partition("/")[2]: n for name, n in sums.items() if name.startswith(f"{what}/")}
        simulated: Any = {outcome: n / dialogues for outcome, n in sorted(counts.items())}
        if what == "lines":
            simulated = sums.get("bot", 0) / dialogues if dialogues else None
        elif what == "repeats":
            simulated = sums.get("repeats", 0)
        if simulated or simulated == 0:
            parts[what] = {"simulated": simulated, "published": published.get(what)}
    return parts


def statistics(
    world: World,
    tasks: Sequence[int],
    sizes: Sequence[tuple[str, int]],
    plus: Sequence[tuple[str, float]],
    tallies: Mapping[Key, int],
) -> dict[str, Any]:
    """The part of ``statistics.json`` that is about dialogues.

    Args:
      world: the domain.
      tasks: simulated.
      sizes: (split, dialogues).
      plus: rates of disfluencies, or none.
      tallies: summed.
    """
    found: dict[str, Any] = {}
    splits = [split for split, _ in sizes]
    for task in tasks:
        of_split = {split: _means({name: tallies.get((task, split, name), 0) for name in COLUMNS}) for split in splits}
        sums = {key: sum(tallies.get((task, split, key), 0) for split in splits) for key in _names(task, tallies)}
        found[str(task)] = {
            "splits": of_split,
            "all": _means({name: sums.get(name, 0) for name in COLUMNS}),
            "paper": PAPER[task],
            "published_files": PUBLISHED.get(task),
            "structure": structure(task, sums),
            "drawn": {
                what: _shares({name: sums.get(f"{what}/{name}", 0) for name in shares}, shares)
                for what, shares in expected(world, task, sizes).items()
            },
            "babi_plus": _plus(dict(plus), sums) if plus else None,
        }
    return found


def _names(task: int, tallies: Mapping[Key, int]) -> list[str]:
    return sorted({name for of, _, name in tallies if of == task})


def _means(sums: Mapping[str, int]) -> dict[str, Any]:
    n = sums["dialogues"]
    means = {name: sums[name] / n if n else None for name in COLUMNS[1:]}
    utterances = sums["user"] + sums["bot"] + sums["results"]
    return {"dialogues": n, "utterances": utterances / n if n else None, **means}


def _shares(seen: Mapping[str, int], shares: Mapping[str, float]) -> dict[str, Any]:
    """Seen and expected shares, and how many standard errors lie between them."""
    n = sum(seen.values())
    found = {}
    for name, share in shares.items():
        error = math.sqrt(share * (1 - share) / n) if n else 0.0
        found[name] = {
            "count": seen[name],
            "share": seen[name] / n if n else None,
            "expected": share,
            "standard_errors": (seen[name] / n - share) / error if error else None,
        }
    return found


def _plus(rates: Mapping[str, float], sums: Mapping[str, int]) -> dict[str, Any]:
    turns = sums.get("user", 0)
    return {
        kind: {
            "turns": sums.get(f"plus/{kind}", 0),
            "possible": sums.get(f"plus/{kind}_possible", 0),
            "share": sums.get(f"plus/{kind}", 0) / turns if turns else None,
            "asked": rates[kind],
            "default": RATES[kind],
        }
        for kind in KINDS
    }


def solved(
    tasks: Sequence[int], sizes: Sequence[tuple[str, int]], tallies: Mapping[Key, int]
) -> dict[str, dict[str, Any]]:
    """How the bot of rules did, by set (``plain``, ``plus``), task and kind of test: answers and dialogues."""
    found: dict[str, dict[str, Any]] = {}
    for name in ("plain", "plus"):
        for task in tasks:
            for test, splits in (("seen", ("train", "dev", "test")), ("oov", ("oov",))):
                sums = {
                    key: sum(tallies.get((task, split, f"bot/{name}/{key}"), 0) for split in splits)
                    for key in ("answers", "right", "tried", "solved")
                }
                if sums["tried"]:
                    shares = {
                        "per_response": sums["right"] / sums["answers"],
                        "per_dialogue": sums["solved"] / sums["tried"],
                    }
                    found.setdefault(name, {}).setdefault(str(task), {})[test] = {**sums, **shares}
    return found


Seen = dict[tuple[str, str], set[str]]  # (split, kind of thing) to what occurs there

REQUEST, ENTITY = "request", "name"


def note(world: World, split: str, made: Made, seen: Seen) -> None:
    """Notes what occurs in a dialogue: all that is said, and all that is listed."""

    def add(kind: str, value: str) -> None:
        seen.setdefault((split, kind), set()).add(value)

    listed = seen.setdefault((split, ENTITY), set())
    for request in made.requests:
        add(REQUEST, " ".join(request))
    for spoken in made.spoken:
        for entity in spoken.results:  # before one of them is spoken of
            if entity.name not in listed:
                listed.add(entity.name)
                for name, value in world.facts(entity).items():
                    add(name, value)
        for said in (spoken.user, spoken.bot):
            for slot, value in said.values.items() if said else ():
                add(slot, value)


def union(sets: Iterable[Iterable[str]]) -> set[str]:
    """All that occurs in any; how the workers' notes are put together."""
    return set().union(*sets)


def intersections(world: World, seen: Mapping[tuple[str, str], Iterable[str]]) -> dict[str, Any]:
    """What splits share.

    Returns:
      ``requests``: pairs of splits to the number of requests that both have; ``oov``: for each kind of thing, how many
      the out-of-vocabulary test has, how many training, dev and test have, and how many both.

    Raises:
      RuntimeError: a request is in two splits, or what must be unseen is in training.
    """
    sets = {key: set(values) for key, values in seen.items()}
    pairs = {
        f"{first}+{second}": len(sets[first, REQUEST] & sets[second, REQUEST])
        for i, first in enumerate(SPLITS)
        for second in SPLITS[i + 1 :]
        if (first, REQUEST) in sets and (second, REQUEST) in sets
    }
    apart = [field.name for field in world.ontology.fields if not field.shared]
    shared = [field.name for field in world.ontology.fields if field.shared]
    rows = {}
    for kind in (ENTITY, *apart, *world.ontology.extras, *shared, "rating"):
        oov = sets.get(("oov", kind), set())
        train = set().union(*(sets.get((split, kind), set()) for split in SPLITS[:-1]))
        unseen = kind not in shared and kind != "rating"
        rows[kind] = {"oov": len(oov), "seen": len(train), "both": len(oov & train), "must_be_unseen": unseen}
    wrong = [pair for pair, n in pairs.items() if n]
    wrong += [kind for kind, row in rows.items() if row["must_be_unseen"] and row["both"]]
    if wrong:
        raise RuntimeError(f"the splits are not apart: {', '.join(wrong)}")
    return {"requests": pairs, "oov": rows}
