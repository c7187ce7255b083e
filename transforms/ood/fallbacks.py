"""What the system says to an utterance that is none of its business."""

from __future__ import annotations

from parapet.transforms.seeding import stable_hash

# Each fits where the user goes on with the task, and where the dialogue ends: none asks a question that a user turn
# after it would leave unanswered, none speaks of a domain.
FALLBACKS = (
    "Sorry, that is not something I can help you with.",
    "I'm afraid I can't help with that one.",
    "That is outside of what I can do, sorry.",
    "Apologies, I don't have an answer to that.",
    "Sorry, I didn't quite get that. I can only assist you with the task at hand.",
    "I'm sorry, I'm not able to do that for you.",
    "That's beyond what I know about, I'm afraid.",
    "Unfortunately, this is not something I was made for.",
    "Sorry, I can't do anything about that. Let's keep to your request.",
    "I'm not sure I follow. That doesn't seem to be about your request.",
    "I wish I could help, but I know nothing about that.",
    "My apologies, that is something I cannot take care of.",
)


def fallback_of(seed: str, dialogue_id: str, turn: int) -> str:
    """The answer to the utterance that is injected for a dialogue's turn."""
    return FALLBACKS[stable_hash(seed, "fallback", dialogue_id, str(turn)) % len(FALLBACKS)]
