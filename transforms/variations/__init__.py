"""User turns with typos, longer, simpler or in other words; and mixes of them with the originals."""
