"""Dialogues under the names of schema variants."""
