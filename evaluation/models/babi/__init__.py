"""Models that choose an answer among candidates (Bordes et al. 2017, section 4)."""
