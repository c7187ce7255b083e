"""Collect answers to the forms of ``parapet hits`` from a language model or from Prolific's participants."""
