#!/usr/bin/env python3
"""check_docs.py [--fix] [ROOT]: fails where documents and compiled code have drifted apart

- A header under include/onepass opens with an example of at most 8 lines, "//   " in front of each.
  It equals the lines between two marks [HEADER] of a file in examples/snippets, which is compiled
  and run. --fix copies them into the headers.
- Blocks of C, C++ and Python in README.md, docs/tutorials, docs/c-api.md and docs/python.md are runs
  of lines of a file in examples. A line "// ..." or "# ..." stands for lines left out. Blocks that
  name a file are scripts/count_change.py's.
- Links between files lead to a file, and to a heading of it.
- A block marked "road" draws calls: each line names a file, a function that it defines, and what
  that does. The function is called by the one above that is indented less; where its name does not
  stand there the remark says "through" what. No function is more than 12 calls deep.
- docs/README.md, or the README.md of a folder below, links to every document in docs."""

import argparse
import glob
import os
import re
import sys
import textwrap

MAX_EXAMPLE = 8
MAX_COLUMNS = 95  # more would be reflowed in the header
NO_EXAMPLE = ("ops/common.h",)  # nothing that a caller writes
MAX_CALLS = 12  # of a road
MARK = re.compile(r"^\s*(?://|/\*|#)\s*\[([^\]\s]+)\](?:\s*\*/)?$")
FENCE = re.compile(r"^(\s*)(```+)\s*([^`]*)$")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
CODE = ("c", "cpp", "python")
CODE_DOCS = ("README.md", "docs/c-api.md", "docs/python.md", "docs/tutorials/*.md")
DOCS = ("*.md", "docs/**/*.md", "training/*.md")


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def find(root, *patterns):
    """Sorted relative paths."""
    found = set()
    for pattern in patterns:
        found.update(glob.glob(pattern, root_dir=root, recursive=True))
    return sorted(path.replace(os.sep, "/") for path in found)


def dedent(lines):
    return textwrap.dedent("\n".join(lines)).strip("\n").split("\n")


# ---- headers ----

def headers(root):
    """Paths below include/onepass."""
    base = "include/onepass/"
    return [path[len(base):] for path in find(root, base + "**/*.h", base + "**/*.hpp")]


def example_span(lines):
    """Half-open range of the example's lines in a header, or None."""
    begin = None
    for i, line in enumerate(lines):
        if not line.startswith("//"):
            break
        if line.startswith("//   "):
            begin = i if begin is None else begin
        elif begin is not None:
            return begin, i
    else:
        i = len(lines)
    return None if begin is None else (begin, i)


def regions(root, errors):
    """{mark: lines} of all snippets."""
    found = {}
    for path in find(root, "examples/snippets/*"):
        name, begin = None, 0
        lines = read(root, path).split("\n")
        for i, line in enumerate(lines):
            mark = MARK.match(line)
            if not mark:
                continue
            if name is None:
                name, begin = mark[1], i + 1
                if name in found:
                    errors.append(f"{path}:{i + 1}: [{name}] is marked twice")
            elif mark[1] == name:
                found[name] = dedent(lines[begin:i])
                name = None
            else:
                errors.append(f"{path}:{i + 1}: [{mark[1]}] inside of [{name}]")
        if name is not None:
            errors.append(f"{path}:{begin}: [{name}] has no end")
    return found


def check_headers(root, fix, errors):
    snippets = regions(root, errors)
    for header in headers(root):
        if header in NO_EXAMPLE:
            continue
        path = "include/onepass/" + header
        lines = read(root, path).split("\n")
        span = example_span(lines)
        wanted = snippets.pop(header, None)
        if wanted is None:
            errors.append(f"{path}: no lines of examples/snippets are marked [{header}]")
            continue
        if len(wanted) > MAX_EXAMPLE:
            errors.append(f"{path}: an example of {len(wanted)} lines, at most {MAX_EXAMPLE}")
        if max(map(len, wanted)) > MAX_COLUMNS:
            errors.append(f"{path}: an example of more than {MAX_COLUMNS} columns")
        elif fix and span:
            comment = [("//   " + line).rstrip() for line in wanted]
            if comment != lines[span[0]:span[1]]:
                lines[span[0]:span[1]] = comment
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write("\n".join(lines))
        elif not span:
            errors.append(f"{path}: does not open with an example")
        elif dedent([line[2:] for line in lines[span[0]:span[1]]]) != wanted:
            errors.append(f"{path}:{span[0] + 1}: not the lines marked [{header}]; --fix copies them")
    for name in sorted(snippets):
        errors.append(f"examples/snippets: [{name}] is no header")


# ---- documents ----

def blocks(text):
    """[(first line number, info string, lines)] of fenced blocks."""
    found, info, fence, begin = [], None, "", 0
    lines = text.split("\n")
    for i, line in enumerate(lines):
        mark = FENCE.match(line)
        if info is None and mark:
            info, fence, begin = mark[3].strip(), mark[2], i + 1
        elif info is not None and mark and mark[2] == fence and not mark[3]:
            found.append((begin + 1, info, dedent(lines[begin:i])))
            info = None
    return found


def prose(text):
    """The lines outside of fenced blocks, without code in backticks; the others empty."""
    inside, kept = False, []
    for line in text.split("\n"):
        if FENCE.match(line):
            inside = not inside
            kept.append("")
        else:
            kept.append("" if inside else re.sub(r"`[^`]*`", "``", line))
    return kept


def slug(heading):
    """The anchor that web pages of repositories give a heading."""
    text = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
    return text.strip().replace(" ", "-")


def anchors(text):
    inside, found = False, set()
    for line in text.split("\n"):
        if FENCE.match(line):
            inside = not inside
        elif not inside and line.startswith("#"):
            found.add(slug(line.lstrip("#")))
    return found


def is_run_of(code, lines):
    """Whether the parts of code, cut at lines "// ...", are runs of lines, in this order."""
    parts, start = [[]], 0
    for line in code:
        if line.strip() in ("// ...", "# ..."):
            parts.append([])
        else:
            parts[-1].append(line)
    for part in map(dedent, parts):
        for i in range(start, len(lines) - len(part) + 1):
            if dedent(lines[i:i + len(part)]) == part:
                start = i + len(part)
                break
        else:
            return False
    return True


def check_code(root, errors):
    sources = [read(root, path).split("\n")
               for path in find(root, "examples/*.c", "examples/*.cpp", "examples/*.py",
                                "examples/snippets/*")]
    for path in find(root, *CODE_DOCS):
        for number, info, code in blocks(read(root, path)):
            if info in CODE and not any(is_run_of(code, lines) for lines in sources):
                errors.append(f"{path}:{number}: these lines are in no file of examples")


def links(text):
    """[(line number, target)]"""
    return [(i + 1, target) for i, line in enumerate(prose(text)) for target in LINK.findall(line)]


def check_links(root, errors):
    for path in find(root, *DOCS):
        for number, target in links(read(root, path)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            where = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if where.startswith("..") or not os.path.exists(os.path.join(root, where)):
                errors.append(f"{path}:{number}: {target} leads nowhere")
            elif anchor and anchor not in anchors(read(root, where)):
                errors.append(f"{path}:{number}: {target}: no such heading")


def bodies(source, function):
    """What stands between the braces of each C++ definition of the function: its name with its
    parameters and no semicolon behind."""
    name, found = re.escape(function), []
    for start in re.finditer(rf"^[^\n/]*\b{name}\([^;{{]*?\)[^;{{]*{{", source, re.MULTILINE):
        depth, end = 1, start.end()
        while depth > 0 and end < len(source):
            depth += {"{": 1, "}": -1}.get(source[end], 0)
            end += 1
        found.append(source[start.end():end])
    return found


def calls(found, function):
    name = re.escape(function.split("::")[-1])
    return any(re.search(rf"\b{name}(?:<[^;{{}}()]*>)?\(", body) for body in found)


def road_errors(root, lines):
    """(line number in the block, what is wrong)"""
    road = []  # (column, function, bodies) of the callers of the next line
    for number, line in enumerate(lines):
        file, function, *remark = line.split(maxsplit=2)
        column = line.index(function, len(file))
        if not os.path.isfile(os.path.join(root, file)):
            yield number, f"there is no {file}"
            continue
        found = bodies(read(root, file), function)
        if not found:
            yield number, f"{file} does not define {function}"
        while road and road[-1][0] >= column:
            road.pop()
        if road and not "".join(remark).startswith("through ") and not calls(road[-1][2], function):
            yield number, f"{road[-1][1]} does not call {function}"
        road.append((column, function, found))
        if len(road) > MAX_CALLS:
            yield number, f"{function} is {len(road)} calls deep, at most {MAX_CALLS}"


def check_roads(root, errors):
    for path in find(root, *DOCS):
        for number, info, lines in blocks(read(root, path)):
            if info == "road":
                errors += [f"{path}:{number + at}: {text}" for at, text in road_errors(root, lines)]


def check_index(root, errors):
    linked = set()
    for index in find(root, "docs/**/README.md"):
        linked.update(os.path.normpath(os.path.join(os.path.dirname(index), target.partition("#")[0]))
                      for _, target in links(read(root, index)))
    for path in find(root, "docs/**/*.md"):
        if path != "docs/README.md" and path not in linked:
            errors.append(f"docs/README.md: does not link to {path}")


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fix", action="store_true", help="copy examples into the headers")
    parser.add_argument("root", nargs="?",
                        default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    args = parser.parse_args(argv)
    errors = []
    check_headers(args.root, args.fix, errors)
    check_code(args.root, errors)
    check_links(args.root, errors)
    check_roads(args.root, errors)
    check_index(args.root, errors)
    for error in errors:
        print(error, file=sys.stderr)
    if not errors:
        print(f"{len(headers(args.root))} headers, {len(find(args.root, *DOCS))} documents")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
