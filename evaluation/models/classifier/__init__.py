"""A text classifier: intents or dialogue acts of user turns, and turns that are out of domain."""
