"""From crowd answers to variants: what ``parapet compose`` does, one concern to a module."""
