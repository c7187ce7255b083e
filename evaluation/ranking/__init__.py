"""Answers chosen among candidates, as in the bAbI dialog tasks (Bordes et al. 2017)."""
