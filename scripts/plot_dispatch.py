#!/usr/bin/env python3
"""plot_dispatch.py FILE... [--out PICTURE.svg]: draws what `onepass bench --dispatch` wrote with
-o json or jsonl: a bar for each row, one group of bars for each model and test. The dark part of a
bar is time in which no kernel ran. Without --out the picture goes to stdout."""

import argparse
import json
import os
import sys
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT = 860, 170, 300  # RIGHT: for the numbers behind a bar
ROW, BAR, HEAD, TOP = 24, 16, 44, 52
KERNELS, OUTSIDE, TEXT, QUIET = "#9dbbe3", "#b5432f", "#222", "#666"
NEEDED = ("dispatch", "fuse", "policy", "us_per_token", "submissions")


def read(path):
    """The rows of a file; fails where it is no output of bench --dispatch."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        rows = json.loads(text) if text.lstrip().startswith("[") else [
            json.loads(line) for line in text.splitlines() if line.strip()]
        missing = [name for row in rows for name in NEEDED if name not in row]
    except (ValueError, TypeError) as error:
        sys.exit(f"plot_dispatch.py: {path}: {error}, expected rows of bench --dispatch -o json")
    if missing or not rows:
        what = f"a row has no {missing[0]}" if missing else "no rows"
        sys.exit(f"plot_dispatch.py: {path}: {what}, expected those of bench --dispatch -o json")
    return rows


def title_of(row):
    """Of the group of bars that the row is in."""
    name, threads = os.path.basename(row["model_filename"]), row["n_threads"]
    depth = f" behind {row['n_depth']}" if row["n_depth"] else ""
    return (f"{name}: {row['n_gen']} tokens{depth}, {row['device']}, "
            f"{threads} thread{'s' * (threads != 1)}")


def label_of(row):
    parts = [row["dispatch"]]
    if row["dispatch"] not in ("per-op", "session"):
        parts.append(f"fuse {row['fuse']}")
        if row["policy"] != "exact":
            parts.append(row["policy"])
    return ", ".join(parts)


def numbers_of(row):
    us, n = row["us_per_token"], round(row["submissions"])
    return f"{us:,.0f} µs, {1e6 / us:,.0f} tokens/s, {n} submission{'s' * (n != 1)}"


def text(x, y, content, anchor="start", fill=TEXT, more=""):
    return (f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}"{more}>'
            f"{escape(content)}</text>")


def rect(x, y, width, height, fill):
    return f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{height:g}" fill="{fill}"/>'


def bar(row, y, scale):
    """A row of the picture: name, time outside of kernels, time inside, numbers."""
    whole = row["us_per_token"]
    # The share of a run with every dispatch timed: it takes longer than the others.
    timed = row.get("timed_us_per_token")
    outside = whole * row["outside_us_per_token"] / timed if timed else 0.0
    middle = y + BAR - 4
    return [text(LEFT - 8, middle, label_of(row), "end"),
            rect(LEFT, y, outside * scale, BAR, OUTSIDE),
            rect(LEFT + outside * scale, y, (whole - outside) * scale, BAR, KERNELS),
            text(LEFT + whole * scale + 6, middle, numbers_of(row), fill=QUIET)]


def draw(rows):
    groups = {}
    for row in rows:
        groups.setdefault(title_of(row), []).append(row)
    out, y = [], TOP
    for title, members in groups.items():
        out.append(text(16, y + 14, title, more=' font-weight="bold"'))
        y += HEAD - 16
        scale = (WIDTH - LEFT - RIGHT) / max(row["us_per_token"] for row in members)
        for row in members:
            out += bar(row, y, scale)
            y += ROW
        y += 16
    head = [rect(0, 0, WIDTH, y, "#fff"), text(16, 22, "Time per token, by the way its ops reach "
                                               "the device"),
            rect(16, 32, 12, 12, OUTSIDE), text(34, 43, "no kernel runs"),
            rect(146, 32, 12, 12, KERNELS), text(164, 43, "a kernel runs")]
    return "\n  ".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" '
                        'font-family="sans-serif" font-size="13">', *head, *out]) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--out", help="the picture; without it: stdout")
    args = parser.parse_args()
    picture = draw([row for path in args.files for row in read(path)])
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(picture)
    else:
        sys.stdout.write(picture)


if __name__ == "__main__":
    main()
