"""Checks the project's pages, and builds the book of them with mdBook.

    .venv/bin/python docs/book.py

`docs/SUMMARY.md` is the table of contents. Pages outside of `docs`, such as the design, are pages of the book, too. Every
relative link must lead to a file, every anchor to a heading, and every name of the crate for applications to an item that it
has. The pages stay within their number of words, and use few of
the phrases that make prose hard to read.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]
DOCS = PROJECT / "docs"
SOURCE = PROJECT / "target/book/source"
BUILT = PROJECT / "target/book/html"
REPOSITORY = re.search(r'^repository = "(.*)"', (PROJECT / "Cargo.toml").read_text(), re.M)[1]

MOST_WORDS = 44_000
# Made by programs, which say so in their first lines.
GENERATED = {"docs/reference/five-windows.md"}
# How often a phrase may be used in 10,000 words outside of code.
PHRASES = {
    "what is": 2,
    "beside": 1,
    "stands?": 1,
    "goes on": 1,
    "anew": 1,
    "told": 1,
    "of which": 1,
}
# The modules of the crate for applications. A page that names an item of one must name one that is there.
MODULES = "memory|message|middleware|policy|replay|store|summarize|window"
LINK = re.compile(r'(\]\(|(?:href|src)=")([^)\s"#]*)(#[^)\s"]*)?([)"])')


def tracked(pattern):
    """The files of the project whose names match a pattern. In an archive, without git, what tools made is passed over."""
    listed = subprocess.run(["git", "ls-files", pattern], cwd=PROJECT, capture_output=True, text=True)
    if listed.returncode == 0:
        return listed.stdout.split()
    made = {"target", "node_modules"}
    found = (file.relative_to(PROJECT) for file in PROJECT.rglob(pattern))
    return sorted(str(file) for file in found if not any(part in made or part[0] == "." for part in file.parts[:-1]))


def without_code(text):
    """The prose of a page: fenced blocks, inline code, comments and addresses are left out."""
    for code in (r"^( *)```.*?^\1```", r"<!--.*?-->", r"`[^`\n]*`", r"\]\([^)]*\)", r"<[^>\n]*>"):
        text = re.sub(code, " ", text, flags=re.M | re.S)
    return text


def anchors(page):
    """The anchors of a page: those of its headings, and those that it sets."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    found = set(re.findall(r'(?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#+ (.*)$", text, flags=re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        while slug in found:
            slug += "-1"
        found.add(slug)
    return found


def broken_links(page):
    """The links of a page that lead nowhere."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for _, target, anchor, _ in LINK.findall(text):
        if ":" in target:
            continue
        file = page.parent / target if target else page
        if not file.exists():
            yield f"{page.relative_to(PROJECT)}: {target} is not there"
        elif anchor and file.suffix == ".md" and anchor[1:] not in anchors(file):
            yield f"{page.relative_to(PROJECT)}: {target}{anchor} is no heading"


def unknown_names(page):
    """Yields each item of the crate for applications that a page names, and that is not in its list of public names."""
    known = (PROJECT / "crates/lookback/surface.txt").read_text().splitlines()
    for name in re.findall(rf"`((?:{MODULES})::[a-z_:A-Z]+)", without_blocks(page.read_text())):
        if f"lookback::{name}" not in known:
            yield f"{page.relative_to(PROJECT)}: the crate `lookback` has no {name}"


def without_blocks(text):
    """A page without its fenced blocks, which are compiled."""
    return re.sub(r"^( *)```.*?^\1```", " ", text, flags=re.M | re.S)


def counted(pages):
    """The words of all pages, and the phrases that are used too often."""
    words = sum(len((PROJECT / page).read_text().split()) for page in pages)
    prose = "\n".join(without_code((PROJECT / page).read_text()) for page in pages)
    length = len(prose.split())
    faults = []
    if words > MOST_WORDS:
        faults.append(f"the pages have {words} words, more than {MOST_WORDS}")
    for phrase, most in PHRASES.items():
        used = len(re.findall(rf"\b{phrase}\b(?!-)", prose, flags=re.I)) * 10_000 / length
        print(f"{phrase:8} {used:.1f} of {most} in 10,000 words")
        if used > most:
            faults.append(f"`{phrase}` is used {used:.1f} times in 10,000 words, more than {most}")
    print(f"{words} words in {len(pages)} pages")
    return faults


def built():
    """Builds the book. A page from elsewhere is put where its path in the project says."""
    shutil.rmtree(SOURCE.parent, ignore_errors=True)
    shutil.copytree(DOCS, SOURCE, ignore=shutil.ignore_patterns("book.py", "*.toml"))
    summary = (DOCS / "SUMMARY.md").read_text()
    inside = {}
    for target in re.findall(r"\]\(([^)]+\.md)\)", summary):
        file = (DOCS / target).resolve()
        place = file.relative_to(DOCS) if DOCS in file.parents else Path("project") / file.relative_to(PROJECT)
        inside[file] = Path("index.md") if file == PROJECT / "README.md" else place

    def text_of(page, place):
        def moved(match):
            before, target, anchor, end = match.groups()
            file = (page.parent / target).resolve() if target and ":" not in target else None
            if file is None:
                return match[0]
            if file in inside:
                new = inside[file]
            elif DOCS in file.parents:
                new = file.relative_to(DOCS)
            else:
                # A file of the project that is no page of the book.
                return f"{before}{REPOSITORY}/blob/main/{file.relative_to(PROJECT)}{anchor or ''}{end}"
            return f"{before}{os.path.relpath(new, place.parent)}{anchor or ''}{end}"

        return LINK.sub(moved, page.read_text())

    for file, place in inside.items():
        (SOURCE / place).parent.mkdir(parents=True, exist_ok=True)
        (SOURCE / place).write_text(text_of(file, place))
    (SOURCE / "SUMMARY.md").write_text(text_of(DOCS / "SUMMARY.md", Path("SUMMARY.md")))
    shutil.copy(DOCS / "book.toml", SOURCE.parent / "book.toml")
    mdbook = shutil.which("mdbook", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    subprocess.run([mdbook, "build", SOURCE.parent], check=True)
    print(f"built {BUILT.relative_to(PROJECT)}/index.html")


def main():
    pages = [page for page in tracked("*.md") if page not in GENERATED]
    faults = [fault for page in tracked("*.md") for fault in broken_links(PROJECT / page)]
    faults += [fault for page in pages for fault in unknown_names(PROJECT / page)]
    faults += counted(pages)
    built()
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
