"""Reads the project's Markdown pages: fenced blocks with test directives, links, headings."""

import pathlib
import re
import sys
from dataclasses import dataclass, field

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_OURS = {"build", ".git"}  # folders with pages of other projects

DIRECTIVE = re.compile(r"<!-- test: (.*?) -->", re.DOTALL)
FENCE = re.compile(r"^\s*```(\S*)\s*$")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(([^()\s]+)\)")


@dataclass
class Block:
    """A fenced block and the directives in the comments directly above it."""

    page: pathlib.Path
    line: int  # of the opening fence; the first line is 1
    language: str
    text: str
    directives: list = field(default_factory=list)

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def values(self, name):
        """Returns the text after `name` in each directive that begins with it."""
        found = [d.split(None, 1) for d in self.directives]
        return [words[1] if len(words) > 1 else "" for words in found if words[0] == name]


def pages():
    """Returns all Markdown pages of the project, sorted."""
    found = [p for p in ROOT.rglob("*.md") if not NOT_OURS & set(p.relative_to(ROOT).parts)]
    return sorted(found)


def read(page):
    return page.read_text(encoding="utf-8").splitlines()


def blocks(page):
    """Returns the fenced blocks of a page, in order."""
    found, open_block, comments, comment = [], None, [], None
    for number, line in enumerate(read(page), start=1):
        fence = FENCE.match(line)
        if open_block is not None:
            if fence:
                found.append(open_block)
                open_block = None
            else:
                open_block.text += line + "\n"
        elif fence:
            open_block = Block(page, number, fence.group(1), "", comments)
            comments = []
        elif comment is not None or line.strip().startswith("<!--"):
            comment = (comment + " " if comment else "") + line.strip()
            if "-->" in line:
                comments = comments + [d.strip() for d in DIRECTIVE.findall(comment)]
                comment = None
        elif line.strip():
            comments = []
    assert open_block is None, f"{open_block}: this block does not end"
    return found


def prose(page):
    """Returns (line number, text) of every line outside fenced blocks and comments."""
    inside, found = False, []
    for number, line in enumerate(read(page), start=1):
        if FENCE.match(line):
            inside = not inside
        elif not inside and not line.strip().startswith("<!--"):
            found.append((number, line))
    return found


def links(page):
    """Returns (line number, target) of every link in the prose. A link's text may span two lines."""
    numbers, lines = zip(*prose(page))
    text = re.sub(r"`[^`\n]*`", "`code`", "\n".join(lines))  # code spans contain no links
    return [(numbers[text.count("\n", 0, match.start())], match.group(1)) for match in LINK.finditer(text)]


def anchors(page):
    """Returns the anchors that GitHub gives to a page's headings."""
    found = []
    for _, line in prose(page):
        heading = HEADING.match(line)
        if not heading:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(2)).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found.append(slug if slug not in found else f"{slug}-{found.count(slug)}")
    return set(found)


def code_spans(page):
    """Returns (line number, text) of every `code span` in the prose."""
    return [(number, span) for number, line in prose(page) for span in re.findall(r"`([^`]+)`", line)]
