"""Dialogue state tracking: models that are asked for the state of a service after a user turn."""
