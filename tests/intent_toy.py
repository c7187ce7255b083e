"""A toy set of utterances: four intents, and turns that are none of them."""

from parapet.evaluation.models.turns import Turn

WAYS = ["please {}", "{}", "I want to {} now", "could you {} for me?", "{}, thanks", "we need to {} today"]
SAID = {
    "FindBus": ["find a bus to {}", "look for coaches to {}"],
    "BuyTicket": ["buy {} a ticket", "pay for the trip of {}"],
    "Alarm": ["set an alarm for {}", "wake {} up"],
    "NONE": ["stop talking to {}", "say goodbye to {}"],
}
FOREIGN = ["explain how volcanoes reach {}", "recite a sonnet about {}", "compare penguins with {}"]
WHO = ["Rome", "Anna", "Bill", "Oslo"]


def toy() -> list[Turn]:
    """192 utterances with their intents."""
    return _turns("", [(name, text) for name, texts in SAID.items() for text in texts])


def foreign() -> list[Turn]:
    """72 utterances that are out of domain."""
    return _turns("f", [("ood", text) for text in FOREIGN])


def _turns(prefix: str, meant: list[tuple[str, str]]) -> list[Turn]:
    return [
        Turn(("", f"{prefix}{i}_{j}_{k}", 0), way.format(said.format(who)), intent)
        for i, way in enumerate(WAYS)
        for j, who in enumerate(WHO)
        for k, (intent, said) in enumerate(meant)
    ]
