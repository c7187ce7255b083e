"""The small tracker: it scores what the dialogue offers as values against what the schema says of its slots."""
