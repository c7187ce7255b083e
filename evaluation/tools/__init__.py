"""Scores agents' tool calls."""
