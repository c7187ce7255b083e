"""User turns said in another way, by rules: with typos, at more length, more simply; and mixes of them."""
