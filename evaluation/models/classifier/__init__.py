"""A text classifier: intents of user turns, and turns that are out of domain."""
