"""Turn answers to the rewriting tasks of ``hits`` into vetted variations of user turns."""
