"""The file format of the bAbI dialog tasks (Bordes et al. 2017): read, written, and its names."""
