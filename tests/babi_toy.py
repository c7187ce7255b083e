"""A toy task in the bAbI format: a greeting, a request, and an API call that only the memory tells."""

from pathlib import Path

from kit import write

from parapet.transforms.simulators import formats

CUISINES, PLACES = ("thai", "french", "greek", "cuban"), ("rome", "oslo", "lima", "cairo")
UNSEEN = ("welsh", "irish")
GREETINGS = ("hi", "good day")

CANDIDATES = [
    "hello",
    "on it",
    *(f"api_call {cuisine} {place}" for cuisine in (*CUISINES, *UNSEEN) for place in PLACES),
    *(f"here it is {cuisine}_phone" for cuisine in (*CUISINES, *UNSEEN)),
]
FACTS = [
    *(formats.Fact(f"resto_{cuisine}", "R_cuisine", cuisine) for cuisine in (*CUISINES, *UNSEEN)),
    *(formats.Fact(f"resto_{cuisine}", "R_phone", f"{cuisine}_phone") for cuisine in (*CUISINES, *UNSEEN)),
    *(formats.Fact(f"resto_{place}", "R_location", place) for place in PLACES),
]


def dialogue(cuisine: str, place: str, greeting: str = "hi", fact: bool = False) -> formats.BabiDialogue:
    """One dialogue, with a fact in it and a question about it, or without."""
    lines: list[formats.Fact | formats.Exchange] = [
        formats.Exchange(greeting, "hello"),
        formats.Exchange(f"a {cuisine} table in {place}", "on it"),
        formats.Exchange(formats.SILENCE, f"api_call {cuisine} {place}"),
    ]
    if fact:
        lines += [formats.Fact(f"resto_{cuisine}", "R_phone", f"{cuisine}_phone")]
        lines += [formats.Exchange("the phone please", f"here it is {cuisine}_phone")]
    return formats.BabiDialogue(tuple(lines))


def dialogues() -> list[formats.BabiDialogue]:
    """All that can be asked for, in both greetings."""
    return [
        dialogue(cuisine, place, greeting, place == "rome")
        for greeting in GREETINGS
        for cuisine in CUISINES
        for place in PLACES
    ]


def unseen() -> list[formats.BabiDialogue]:
    """With cuisines that training lacks."""
    return [dialogue(cuisine, place, fact=True) for cuisine in UNSEEN for place in PLACES]


def write_toy(folder: Path) -> list[str]:
    """Writes train, dev, test, candidates and knowledge base; gives the flags for them, without ``--match``."""
    for name, of_set in {"trn": dialogues(), "dev": dialogues()[::2], "tst": dialogues(), "tst-OOV": unseen()}.items():
        write(folder / f"toy-task1-{name}.txt", "".join(formats.dialogue_text(one.lines) for one in of_set))
    write(folder / "candidates.txt", formats.candidates_text(CANDIDATES))
    write(folder / "kb.txt", formats.facts_text(FACTS))
    of = {"train": "toy-task1-trn.txt", "dev": "toy-task1-dev.txt", "candidates": "candidates.txt"}
    return [part for flag, name in of.items() for part in (f"--{flag}", str(folder / name))]
