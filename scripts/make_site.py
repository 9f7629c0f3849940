#!/usr/bin/env python3
"""make_site.py DOXYGEN DOXYFILE FOLDER: the documents and the public headers as a web site

Writes what doxygen reads to FOLDER/input, runs it and fails on its first warning. The comments of the
headers become doxygen's, their examples the lines of examples/snippets that are compiled; links
between documents become links between pages."""

import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(ROOT, "scripts", "checks"))

import check_docs  # noqa: E402

PAGES = ("README.md", "docs/*.md", "docs/tutorials/*.md", "docs/adr/*.md", "CONTRIBUTING.md", "CHANGELOG.md",
         "SECURITY.md")
MAIN_PAGE = "README.md"
LIST = "docs/README.md"  # of all documents in reading order
COMMENT = re.compile(r"^(\s*)//(?: |$)(.*)$")
# A declaration or a value with a remark behind it.
REMARK = re.compile(r"^(.*[;,].*?|\s*\w+)  // (.*)$")


# ---- headers ----

def escaped(text):
    """Text that neither doxygen nor Markdown takes for a command, but for code in backticks."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        parts = [text]
    return "`".join(part if i % 2 else re.sub(r"([\\@<>#%*_])", r"\\\1", part)
                    for i, part in enumerate(parts))


def with_rows(text):
    """Macros over a table: where they list names, those; else nothing, doxygen cannot read them."""
    def rows(match):
        table = check_docs.read(ROOT, os.path.join("include", match[2]))
        names = []
        for macro in re.findall(r"^#define (\w+)\(name,.*\) name,$", match[1], re.MULTILINE):
            names += re.findall(rf"^{macro}\((\w+),", table, re.MULTILINE)
        return "".join(f"  {name},\n" for name in names)

    return re.sub(r'((?:^#define .*\n(?: .*\n)?)+)#include "(.*\.def)"\n(?:#undef .*\n)*', rows, text,
                  flags=re.MULTILINE)


def doxygen_header(name, text):
    """A header with its comments as doxygen wants them, and the rows of tables as values."""
    lines = with_rows(text).split("\n")
    span = check_docs.example_span(lines)
    begin, end = span or (0, 0)
    done, i = [], 0
    while i < len(lines) and lines[i].startswith("//"):  # the file comment
        if i == begin and span:
            snippets = [path for path in check_docs.find(ROOT, "examples/snippets/*")
                        if f"[{name}]" in check_docs.read(ROOT, path)]
            done.append(f"/// \\snippet {os.path.basename(snippets[0])} {name}")
        elif not begin <= i < end:
            done.append("/// " + escaped(lines[i][2:].strip()))
        i += 1
    if done:
        done.insert(0, "/// \\file")
        done.append("")
    while i < len(lines):
        block = i
        while i < len(lines) and COMMENT.match(lines[i]):
            i += 1
        # A comment in front of a blank line belongs to nothing, and so does a title.
        loose = i == len(lines) or not lines[i].strip() or lines[i].strip().startswith(("}", "#"))
        for line in lines[block:i]:
            indent, words = COMMENT.match(line).groups()
            title = words.startswith("----")
            done.append(line if loose or title else f"{indent}/// {escaped(words)}")
        if i < len(lines):
            remark = REMARK.match(lines[i])
            if remark and not re.match(r"\s*(#|\}|//|(struct|class) \w+;)", lines[i]):
                done.append(f"{remark[1]}  ///< {escaped(remark[2])}")
            else:
                done.append(lines[i])
            i += 1
    return "\n".join(done)


# ---- documents ----

def page_name(path):
    return "page_" + re.sub(r"\W+", "_", os.path.splitext(path)[0])


def target_of(path, target, pages):
    """Where a link of a page leads on the site; None: to a file that is not on it."""
    if re.match(r"[a-z]+:", target):
        return target
    name, _, anchor = target.partition("#")
    where = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
    if where not in pages:
        return None
    if anchor:
        return f"@ref {page_name(where)}_{anchor.replace('-', '_')}"
    return "@ref " + ("index" if where == MAIN_PAGE else page_name(where))


def doxygen_page(path, text, pages):
    """A document whose headings have names and whose links lead to pages."""
    def link(match):
        label, target = match[1], match[2]
        if match[0].startswith("!"):
            return f"![{label}]({os.path.basename(target)})"
        where = target_of(path, target, pages)
        return f"[{label}]({where})" if where else label

    done, inside, first = [], False, True
    for line in text.split("\n"):
        if check_docs.FENCE.match(line):
            inside = not inside
            done.append(re.sub(r"^(\s*```+)(\w+).*", r"\1{.\2}", line))
            continue
        heading = re.match(r"^(#+) (.*)$", line)
        if inside:
            done.append(line)
        elif heading:
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[2])
            name = page_name(path)
            if not first:
                name += "_" + check_docs.slug(words).replace("-", "_")
            elif path == MAIN_PAGE:
                name = "mainpage"
            first = False
            done.append(f"{heading[1]} {words.replace('`', '')} {{#{name}}}")
        else:
            line = re.sub(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)", link, line)
            done.append(re.sub(r"<!--.*", "", line))
    return "\n".join(done)


# ---- all of it ----

def write(folder, path, text):
    full = os.path.join(folder, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as file:
        file.write(text)


def reading_order(pages):
    """As the list of documents links to them; the others behind."""
    linked = [MAIN_PAGE, LIST] + [os.path.normpath(os.path.join(os.path.dirname(LIST), target.partition("#")[0]))
              for _, target in check_docs.links(check_docs.read(ROOT, LIST))]
    return sorted(pages, key=lambda path: (linked.index(path) if path in linked else len(linked),
                                           path))


def prepare(folder):
    """Returns the paths of the documents in the order of the site."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in check_docs.headers(ROOT):
        path = "include/onepass/" + name
        write(folder, path, doxygen_header(name, check_docs.read(ROOT, path)))
    pages = check_docs.find(ROOT, *PAGES)
    for path in pages:
        write(folder, path, doxygen_page(path, check_docs.read(ROOT, path), pages))
    return reading_order(pages)


def main(argv):
    if len(argv) != 3:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    doxygen, doxyfile, folder = argv[0], argv[1], os.path.abspath(argv[2])
    pages = prepare(os.path.join(folder, "input"))
    shutil.rmtree(os.path.join(folder, "html"), ignore_errors=True)
    with open(doxyfile, encoding="utf-8") as file:
        settings = file.read() + "\n".join(
            ["INPUT =", *(f'INPUT += "{folder}/input/{path}"' for path in [*pages, "include"]), ""])
    result = subprocess.run([doxygen, "-"], input=settings, cwd=folder, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if result.returncode != 0 or result.stderr:
        print(result.stderr or result.stdout, file=sys.stderr)
        return 1
    index = os.path.join(folder, "html", "index.html")
    print(f"{len(check_docs.headers(ROOT))} headers, {len(pages)} pages: {index}")
    return 0 if os.path.isfile(index) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
