"""Check every internal link, anchor and picture of the built site, and of README.md: no network is used.

    python -m _site.check_links out/site

Also fails if a page loads a script, a style sheet, a font or a picture from another host: the site works offline.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parent.parent.parent
LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("source", "src"), ("video", "src"), ("iframe", "src")}
"""Tags and attributes that make a browser load something."""


class Page(HTMLParser):
    """The links and anchors of one page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[tuple[str, str, str]] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.links += [(tag, name, given[name]) for name in ("href", "src") if given.get(name)]


def problems(site: Path) -> Iterator[str]:
    """Yield a line for each broken or foreign link of the site."""
    pages = {file.resolve(): Page(file) for file in sorted(site.rglob("*.html"))}
    for file, page in pages.items():
        where = file.relative_to(site.resolve())
        for tag, attribute, link in page.links:
            url = urlsplit(link)
            if url.scheme in ("data", "mailto", "javascript"):
                continue
            if url.scheme or url.netloc:
                if (tag, attribute) in LOADED:
                    yield f"{where}: <{tag}> loads {link}"
                continue
            target = (file.parent / unquote(url.path)).resolve() if url.path else file
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{where}: {link} does not exist"
            elif url.fragment and target in pages and unquote(url.fragment) not in pages[target].anchors:
                yield f"{where}: {link} has no such anchor"
    for file in sorted((site / "_static").rglob("*.css")):
        for link in re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", file.read_text(encoding="utf-8")):
            yield f"{file.relative_to(site)} loads {link}"


def readme_problems() -> Iterator[str]:
    """Yield a line for each broken link of README.md."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for path, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]+))?\)", text):
        target = ROOT / (path or "README.md")
        if not target.exists():
            yield f"README.md: {path} does not exist"
        elif anchor and anchor not in _headings(target):
            yield f"README.md: {path} has no heading #{anchor}"


def _headings(file: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def main() -> int:
    """Print the problems; return 1 if there are any."""
    found = [*problems(Path(sys.argv[1])), *readme_problems()]
    for line in found:
        print(line, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
