"""The forms of ``parapet hits``, served to people: what is assigned to whom, the store, the pages, the limits."""
