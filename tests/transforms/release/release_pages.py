"""A page read back: tables, links, words, ids."""

from html.parser import HTMLParser

# Texts that mean something in Markdown, HTML, YAML or templates.
HOSTILE = (
    "a | b",
    "<script>alert(1)</script>",
    "line\n\n# heading",
    "`code` ``two``",
    "*bold* _under_ ~~gone~~",
    "[link](javascript:x) ![image](x)",
    "---",
    "1. one",
    "- item",
    "trailing \\",
    "&lt;b&gt; &amp;",
    "| --- |",
    "$x$",
    "===",
    "x: y # z",
    "one\n\ntwo",
    "```",
    "- [x]",
    "{{ 7*7 }}",
    "",
)


class Page(HTMLParser):
    """Rows of tables, links, ids, and every element that was left open."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.table, self.tags = list[list[str]](), set[str]()
        self.links, self.ids, self.open = list[str](), list[str](), list[str]()
        self.words = ""
        self.feed(html)
        self.words = " ".join(self.words.split())
        self.table = [[" ".join(cell.split()) for cell in row] for row in self.table]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.table.append([])
        if tag in ("td", "th"):
            self.table[-1].append("")
        self.links += [value or "" for key, value in attrs if key in ("href", "src")]
        self.ids += [value or "" for key, value in attrs if key == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words += f"{data} "
        if {"td", "th"} & set(self.open):
            self.table[-1][-1] += data

    def row(self, first: str, second: str = "") -> list[str]:
        """The first row whose first cell begins with a word, and that has a second cell, if one is given."""
        return next(row for row in self.table if row[0].split()[:1] == [first] and (not second or row[1:2] == [second]))
