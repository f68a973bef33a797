"""Tests that the documentation site builds without a warning or a network, that its links lead somewhere, and that all
is in it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
import typer

import nki_lab.language as nl
from docs.generate import pages, write_pages
from docs.markdown import escaped, prose, table
from nki_lab.choices import from_environment
from nki_lab.cli.main import app
from nki_lab.errors import error_classes
from nki_lab.isa import registry
from nki_lab.session.questions import all_options

ROOT = Path(__file__).parents[1]
#: What a browser fetches by itself when it shows a page.
FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
}


class Page(HTMLParser):
    """Collects what a page refers to, and the places in it that others may refer to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self.ids |= {known["id"]} if "id" in known else set()
        if tag == "a" and "href" in known:
            self.links.append(known["href"])
        for name, value in known.items():
            if (tag, name) in FETCHED and known.get("rel") not in (
                "index",
                "search",
                "next",
                "prev",
            ):
                self.fetched.append(value)


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    """Return the pages that are written from the code."""
    return pages()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Page]:
    """Build the site as `make docs` does, and return its pages by path."""
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    command += ["-d", str(folder / "doctrees"), str(ROOT / "docs"), str(folder / "html")]
    outcome = subprocess.run(command, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    html = folder / "html"
    return {p.relative_to(html).as_posix(): Page(p) for p in html.rglob("*.html")}


@pytest.mark.thorough
@pytest.mark.slow
def test_every_link_leads_to_a_place_in_the_site(site: dict[str, Page]):
    broken = [
        f"{name}: {link}"
        for name, page in site.items()
        for link in page.links
        if "://" not in link and not link.startswith("mailto:") and not leads(site, name, link)
    ]
    assert broken == []
    assert len(site) > len(registry)


def leads(site: dict[str, Page], name: str, link: str) -> bool:
    path, anchor = urldefrag(unquote(link))
    there = (Path("/") / Path(name).parent / path).resolve() if path else Path("/") / name
    target = site.get(there.as_posix().lstrip("/"))
    return target is not None and (not anchor or anchor in target.ids)


@pytest.mark.thorough
@pytest.mark.slow
def test_pages_fetch_nothing_from_elsewhere(site: dict[str, Page]):
    fetched = {address for page in site.values() for address in page.fetched}
    assert fetched
    assert [address for address in fetched if "//" in address] == []


@pytest.mark.thorough
@pytest.mark.slow
def test_every_page_that_is_written_from_code_is_in_the_site(
    site: dict[str, Page], written: dict[str, str]
):
    for name in written:
        assert f"generated/{name.removesuffix('.md')}.html" in site


def rows(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line.startswith("| `"))


def test_nothing_of_the_tables_is_left_out(written: dict[str, str]):
    assert {f"instructions/{name}.md" for name in registry} <= set(written)
    for kind in error_classes():
        assert f"\n## {kind.code} {kind.__name__}\n" in written["errors.md"]
    for option in all_options():
        assert any(row.startswith(f"| `{option.flag}") for row in rows(written["magics.md"]))
    for choice in from_environment():
        assert f"| `{choice.env}` |" in written["commands.md"]
    for name in typer.main.get_command(app).commands:
        assert f"\n## `nki-lab {name}`\n" in written["commands.md"]
    for magic in ("%%nki", "%nki", "%nki_ir", "%nki_exercise", "%nki_doctor"):
        assert f"\n## `{magic}`\n" in written["magics.md"]
    assert all(
        f"## `nl.{name}`\n" in written["functions.md"] for name in ("load", "softmax", "add")
    )
    assert "| `nl.bfloat16` | float | 2 |" in written["functions.md"]
    assert all(
        path.stem[:2] in written["lessons.md"] for path in (ROOT / "workshop").glob("*.ipynb")
    )
    assert nl.bfloat16.itemsize == 2


def test_an_instruction_page_has_rules_costs_and_chips(written: dict[str, str]):
    page = written["instructions/nc_matmul.md"]
    for words in (
        "# `nisa.nc_matmul`\n",
        "nisa.nc_matmul(dst, stationary, moving,",
        "Multiply `stationary.T @ moving` into a PSUM tile.",
        "| `stationary` | read, in sbuf, also .indirect() |",
        "| `trn3` | NeuronCore-v4 | yes |",
        "- `dst` must be in psum\n",
        "    nisa.nc_matmul(dst=dst, stationary=stationary, moving=moving)\n",
        "modelled cost of one call on trn1",
        "  -> MATMUL",
    ):
        assert words in page
    assert "| `trn1` | NeuronCore-v2 | no |" in written["instructions/nc_matmul_mx.md"]


def test_pages_are_written_once_and_old_ones_go(tmp_path: Path):
    write_pages(tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.md")}
    (tmp_path / "instructions" / "no_more.md").write_text("old")
    (tmp_path / "errors.md").write_text("changed")
    write_pages(tmp_path)
    again = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.md")}
    assert again.keys() == times.keys()
    assert [p.name for p in again if again[p] != times[p]] == ["errors.md"]


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("a_b * <c> [d]", r"a\_b \* \<c\> \[d\]"),
        ("`a_b` and c_d", r"`a_b` and c\_d"),
        ("an `open a_b", r"an \`open a\_b"),
    ],
)
def test_what_is_no_markup_stays_none(text: str, markdown: str):
    assert escaped(text) == markdown


def test_paragraphs_flow_and_lists_keep_their_lines():
    assert (
        prose("One\ntwo.\n\nArgs:\n    x: a_b") == "One two.\n\n```text\nArgs:\n    x: a_b\n```\n"
    )
    assert table(("a", "b"), [["x|y", "z\nw"]]).splitlines()[2] == r"| x\|y | z w |"


def test_the_developer_page_names_files_that_exist():
    text = (ROOT / "docs" / "developers.md").read_text("utf-8")
    files = re.findall(r"`(nki_lab/[\w/]+(?:\.py|/))`", text)
    assert len(files) > 20
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_every_room_is_on_the_map_with_a_sentence(written: dict[str, str]):
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", written["rooms.md"], re.MULTILINE)
    package = ROOT / "nki_lab"
    rooms = {p.parent.name for p in package.glob("*/__init__.py")} | {
        p.stem for p in package.glob("*.py") if not p.stem.startswith("__")
    }
    assert {room for room, _ in rows} == rooms
    assert [room for room, sentence in rows if not sentence.endswith(".")] == []
