"""Calls in the format of DSTC2 (Henderson et al. 2014), written for tests: logs, labels, lists and the ontology."""

import json
from pathlib import Path
from typing import Any

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
    return {
        "transcription": transcription,
        "semantics": {"json": acts or [], "cam": ""},
        "goal-labels": goals or {},
        "method-label": method,
        "requested-slots": [],
        **more,
    }


def write_call(root: Path, name: str, *turns: tuple[dict[str, Any], dict[str, Any]]) -> Path:
    """Writes a call, given (prompt, label) of each turn. What is heard is the transcription in capitals."""
    folder = root / "data" / name
    folder.mkdir(parents=True)
    session = name.rpartition("/")[2]
    log = {
        "session-id": session,
        "caller-id": "0a1b",
        "session-date": "2013-03-28",
        "turns": [
            {"turn-index": i, "output": said, "input": heard(meant["transcription"].upper())}
            for i, (said, meant) in enumerate(turns)
        ],
    }
    labels = {
        "session-id": session,
        "caller-id": "0a1b",
        "task-information": {"goal": {"text": "", "constraints": [], "request-slots": []}, "feedback": {}},
        "turns": [{"turn-index": i, "audio-file": "a.wav", **meant} for i, (_, meant) in enumerate(turns)],
    }
    (folder / "log.json").write_text(json.dumps(log))
    (folder / "label.json").write_text(json.dumps(labels))
    return folder


def write_lists(root: Path, **splits: list[str]) -> None:
    """Writes the lists of splits, and the ontology."""
    config = root / "scripts" / "config"
    config.mkdir(parents=True)
    for split, names in splits.items():
        (config / f"dstc2_{split}.flist").write_text("".join(f"{name}\n" for name in names))
    (config / "ontology_dstc2.json").write_text(json.dumps(ONTOLOGY))


def cheap_chinese(root: Path, name: str) -> Path:
    """A call with a search that fails, another, an alternative, and details; every act that names a restaurant."""
    nowhere = {"food": "tuscan", "pricerange": "cheap"}
    goal = {"area": "dontcare", "food": "chinese", "pricerange": "cheap"}
    return write_call(
        root,
        name,
        (
            prompt(WELCOME, act("welcomemsg")),
            label(
                "breath im looking for a cheap  restaurant that serves tuscan food",
                [act("inform", ("pricerange", "cheap")), act("inform", ("food", "tuscan"))],
                nowhere,
            ),
        ),
        (
            prompt(
                "Sorry there is no tuscan restaurant in the cheap price range",
                act("canthelp", ("food", "tuscan"), ("pricerange", "cheap")),
                act("canthelp.exception", ("name", "zizzi")),
            ),
            label("chinese food", [act("inform", ("food", "chinese"))], {**nowhere, "food": "chinese"}),
        ),
        (
            prompt("What part of town do you have in mind?", act("request", ("slot", "area"))),
            label("any part of town noise", [act("inform", ("this", "dontcare"))], goal),
        ),
        (
            prompt(
                "the lucky star is a nice restaurant in the south of town serving chinese food",
                act("offer", ("name", "the lucky star")),
                act("inform", ("food", "chinese")),
                act("inform", ("area", "south")),
                act("inform", ("pricerange", "cheap")),
            ),
            label("anything else", [act("reqalts")], goal, "byalternatives"),
        ),
        (
            prompt(
                "Golden Wok serves chinese food in the cheap price range",
                act("offer", ("name", "golden wok")),
                act("inform", ("food", "chinese"), ("pricerange", "cheap"), ("area", "north")),
            ),
            label(
                "whats the phone number of the lucky star",
                [act("request", ("slot", "phone")), act("inform", ("name", "the lucky star"))],
                {**goal, "name": "the lucky star"},
                "byname",
                **{"requested-slots": ["phone"]},
            ),
        ),
        (
            prompt(
                "The phone number of the lucky star is 01223 244277",
                act("offer", ("name", "the lucky star")),
                act("inform", ("phone", "01223 244277")),
            ),
            label("", [], {**goal, "name": "the lucky star"}, "none"),
        ),
        (
            prompt("Can I help you with anything else?", act("reqmore")),
            label("thank you good bye", [act("thankyou"), act("bye")], {**goal, "name": "the lucky star"}, "finished"),
        ),
    )


def asian_oriental(root: Path, name: str) -> Path:
    """A short call, with a value of two words and one of a restaurant that no other call names."""
    goal = {"food": "asian oriental"}
    return write_call(
        root,
        name,
        (
            prompt(WELCOME, act("welcomemsg")),
            label("how about Asian Oriental type of food", [act("inform", ("food", "asian oriental"))], goal),
        ),
        (
            prompt(
                "saigon city is a nice place in the north of town serving tasty asian oriental food",
                act("offer", ("name", "saigon city")),
                act("inform", ("food", "asian oriental"), ("area", "north"), ("count", 7)),
            ),
            label("thank you", [act("thankyou")], goal),
        ),
    )
