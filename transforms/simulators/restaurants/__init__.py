"""The restaurant simulator of Bordes et al. 2017, sections 3.1 to 3.3: knowledge base, dialogues of tasks 1 to 5."""
