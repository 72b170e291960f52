# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The site that ./run docs makes, by Sphinx: the Markdown of the tree as it is, with the manual, the examples and a search.

The sidebar is the index of docs/README.md. Pages of the manual get their name as a title, and links to each other.
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

project = "hmreg"
version = release = re.search(r"^project\(hmreg VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)
copyright = "hmreg's contributors; BSD-2-Clause OR GPL-2.0-only"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["**.md"]
exclude_patterns = ["build", ".*"]
html_theme = "furo"
html_title = f"hmreg {version}"
html_copy_source = False
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # a page of the manual begins with several headings of the first level

MANUAL = {}  # each name of the manual with a section: its page
for page in (ROOT / "docs/man").glob("*.md"):
    section = page.stem[-1]
    names = re.search(r"^# NAME\n\n(.*?) -[ \n]", page.read_text(), re.S | re.M)
    for name in re.findall(r"hmreg[\w-]*", names.group(1)) + [page.stem[:-2]]:
        MANUAL[name, section] = page.name


FOLDERS = sorted(path.name for path in ROOT.iterdir()
                 if path.is_dir() and path.name[0] != "." and path.name not in ("build", "docs", "examples"))


def pages(pattern):
    return sorted(str(page.relative_to(ROOT))[:-3] for page in ROOT.glob(pattern) if page != ROOT / "README.md")


def toctrees():
    """One for each section of the index, its pages in their order; the manual; and the other files."""
    index = (ROOT / "docs/README.md").read_text()
    for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", index, re.S | re.M):
        named = dict.fromkeys(re.findall(r"\]\(([^)#]+\.md)", text))
        yield title, [str((ROOT / "docs" / page).resolve().relative_to(ROOT))[:-3] for page in named]
    yield "Manual", pages("docs/man/*.md")
    yield "Examples", pages("examples/*/README.md")
    yield "Project", ["docs/README"] + pages("*.md")
    yield "Folders", [page for folder in FOLDERS for page in pages(f"{folder}/**/README.md")]


def manual_links(text):
    def link(match):
        page = MANUAL.get((match[1], match[2]))
        return f"[{match[1]}({match[2]})]({page})" if page else match[0]

    return re.sub(r"\*\*(hmreg[\w-]*)\*\*\(([137])\)", link, text)


def read(app, name, source):
    if name == root_doc:
        source[0] += "".join(
            "\n```{toctree}\n:hidden:\n:caption: %s\n\n%s\n```\n" % (title, "\n".join(pages)) for title, pages in toctrees())
    elif name.startswith("docs/man/"):
        stem = name.rsplit("/", 1)[1]
        text = re.sub(r"^---\n.*?\n---\n", "", source[0], 1, re.S)
        source[0] = f"# {stem[:-2]}({stem[-1]})\n" + re.sub(r"^#", "##", manual_links(text), flags=re.M)


def follow_the_browser(app, failed):
    """Debian 12's furo has the dark colours for its own switch only: the browser's preference gets them too."""
    path = pathlib.Path(app.outdir) / "_static/styles/furo.css"
    style = path.read_text() if path.exists() else "prefers-color-scheme"
    if not failed and "prefers-color-scheme" not in style:
        colours = re.search(r'body\[data-theme="dark"\] (\{[^}]*\})', style)[1]
        path.write_text(style + '@media not print { @media (prefers-color-scheme: dark) {\n'
                        f'  body:not([data-theme="light"]) {colours}\n}} }}\n')


def setup(app):
    app.connect("source-read", read)
    app.connect("build-finished", follow_the_browser)
