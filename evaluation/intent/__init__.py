"""Intents of utterances: accuracy and macro-F1."""
