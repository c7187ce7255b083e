"""``plural`` until its users take ``counted`` of ``parapet.transforms.text``."""

from parapet.transforms.text import counted as plural

__all__ = ["plural"]
