"""Answers to the rewriting tasks of ``hits``: from assignments to vetted variations of user turns."""
