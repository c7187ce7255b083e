"""Responses of a task-oriented system: Inform, Success, BLEU, Combined."""
