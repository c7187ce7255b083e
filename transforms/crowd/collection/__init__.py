"""Answers to the forms of ``parapet hits`` from elsewhere: a language model, or participants of Prolific."""
