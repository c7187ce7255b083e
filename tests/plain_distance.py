"""The distance of Levenshtein, as every textbook has it."""


def edit_distance(first, second, substitution=1):
    """The least cost of edits that lead from one sequence to the other."""
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        above, row = row, [i]
        for j, b in enumerate(second, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (substitution if a != b else 0)))
    return row[-1]
