"""Calls in the format of DSTC2 (Henderson et al. 2014), written for tests: logs, labels, lists and the ontology."""

from functools import partial
from pathlib import Path
from typing import Any

from kit import write

WELCOME = (
    "Hello , welcome to the Cambridge restaurant system . You can ask for restaurants by area , price range or food "
    "type . How may I help you ?"
)
ONTOLOGY = {
    "informable": {
        "food": ["asian oriental", "chinese", "indian", "tuscan"],
        "area": ["centre", "north", "south"],
        "pricerange": ["cheap", "moderate", "expensive"],
        "name": ["golden wok", "saigon city", "the lucky star", "zizzi"],
    },
    "requestable": ["addr", "area", "food", "phone", "pricerange", "postcode", "signature", "name"],
    "method": ["none", "byconstraints", "byname", "byalternatives", "finished"],
}

Acts = list[dict[str, Any]]


def act(name: str, *slots: tuple[str, Any]) -> dict[str, Any]:
    return {"act": name, "slots": [list(slot) for slot in slots]}


def prompt(transcript: str, *acts: dict[str, Any]) -> dict[str, Any]:
    """The system's half of a turn, in the log."""
    return {"transcript": transcript, "dialog-acts": list(acts), "start-time": 0.1, "end-time": 1.0, "aborted": False}


def heard(text: str) -> dict[str, Any]:
    """The recogniser's half, in the log."""
    hypotheses = [{"asr-hyp": text, "score": -0.1}, {"asr-hyp": "something else", "score": -2.0}]
    live = {"asr-hyps": hypotheses if text else [], "slu-hyps": [{"slu-hyp": [], "score": 1.0}]}
    return {"live": live, "batch": {"asr-hyps": [], "cnet": []}, "audio-file": "a.wav", "start-time": 1.0}


def label(
    transcription: str,
    acts: Acts | None = None,
    goals: dict[str, str] | None = None,
    method: str = "byconstraints",
    **more: Any,
) -> dict[str, Any]:
    """The caller's half of a turn, in the label."""
    meant = {"semantics": {"json": acts or [], "cam": ""}, "goal-labels": goals or {}, "method-label": method}
    return {"transcription": transcription, **meant, "requested-slots": [], **more}


def write_call(root: Path, name: str, *turns: tuple[dict[str, Any], dict[str, Any]]) -> Path:
    """Writes a call, given (prompt, label) of each turn. What is heard is the transcription in capitals."""
    folder = root / "data" / name
    session = name.rpartition("/")[2]
    caller = {"session-id": session, "caller-id": "0a1b"}
    logged = [
        {"turn-index": i, "output": said, "input": heard(meant["transcription"].upper())}
        for i, (said, meant) in enumerate(turns)
    ]
    labelled = [{"turn-index": i, "audio-file": "a.wav", **meant} for i, (_, meant) in enumerate(turns)]
    task = {"goal": {"text": "", "constraints": [], "request-slots": []}, "feedback": {}}
    write(folder / "log.json", {**caller, "session-date": "2013-03-28", "turns": logged})
    write(folder / "label.json", {**caller, "task-information": task, "turns": labelled})
    return folder


def write_lists(root: Path, **splits: list[str]) -> None:
    """Writes the lists of splits, and the ontology."""
    config = root / "scripts" / "config"
    for split, names in splits.items():
        write(config / f"dstc2_{split}.flist", "".join(f"{name}\n" for name in names))
    write(config / "ontology_dstc2.json", ONTOLOGY)


def cheap_chinese(root: Path, name: str) -> Path:
    """A call with a search that fails, another, an alternative, and details; every act that names a restaurant."""
    inform, star = partial(act, "inform"), ("name", "the lucky star")
    nowhere = {"food": "tuscan", "pricerange": "cheap"}
    goal = {"area": "dontcare", "food": "chinese", "pricerange": "cheap"}
    named = {**goal, "name": "the lucky star"}
    cheap, tuscan, chinese = ("pricerange", "cheap"), ("food", "tuscan"), ("food", "chinese")
    cannot = [act("canthelp", tuscan, cheap), act("canthelp.exception", ("name", "zizzi"))]
    offered = [act("offer", star), inform(chinese), inform(("area", "south")), inform(cheap)]
    other = inform(chinese, cheap, ("area", "north"))
    called = [act("offer", star), inform(("phone", "01223 244277"))]
    prompts = [
        prompt(WELCOME, act("welcomemsg")),
        prompt("Sorry there is no tuscan restaurant in the cheap price range", *cannot),
        prompt("What part of town do you have in mind?", act("request", ("slot", "area"))),
        prompt("the lucky star is a nice restaurant in the south of town serving chinese food", *offered),
        prompt("Golden Wok serves chinese food in the cheap price range", act("offer", ("name", "golden wok")), other),
        prompt("The phone number of the lucky star is 01223 244277", *called),
        prompt("Can I help you with anything else?", act("reqmore")),
    ]
    cheap_tuscan = [inform(cheap), inform(tuscan)]
    asks = [act("request", ("slot", "phone")), inform(star)]
    labels = [
        label("breath im looking for a cheap  restaurant that serves tuscan food", cheap_tuscan, nowhere),
        label("chinese food", [inform(chinese)], {**nowhere, "food": "chinese"}),
        label("any part of town noise", [inform(("this", "dontcare"))], goal),
        label("anything else", [act("reqalts")], goal, "byalternatives"),
        label("whats the phone number of the lucky star", asks, named, "byname", **{"requested-slots": ["phone"]}),
        label("", [], named, "none"),
        label("thank you good bye", [act("thankyou"), act("bye")], named, "finished"),
    ]
    return write_call(root, name, *zip(prompts, labels, strict=True))


def asian_oriental(root: Path, name: str) -> Path:
    """A short call, with a value of two words and one of a restaurant that no other call names."""
    goal, food = {"food": "asian oriental"}, ("food", "asian oriental")
    offer = [act("offer", ("name", "saigon city")), act("inform", food, ("area", "north"), ("count", 7))]
    asked = [act("inform", food)]
    place = "saigon city is a nice place in the north of town serving tasty asian oriental food"
    first = prompt(WELCOME, act("welcomemsg")), label("how about Asian Oriental type of food", asked, goal)
    return write_call(root, name, first, (prompt(place, *offer), label("thank you", [act("thankyou")], goal)))
