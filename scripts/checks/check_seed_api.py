#!/usr/bin/env python3
"""check_seed_api.py [--junit FILE] [--mutate BUILD [--sample N --seed S]] [OPTION FILE]...

Checks that every name of docs/seed-items.txt is in the first cell of a table row of
docs/seed-api.md and that the row's test column names at least one test (Suite.Name). With the file
of ctest --output-junit also that each named test passed: at least one test of that name passed and
none failed. A parameterized test is named without its instance.

--mutate: every wrapper of onepass/compat.h, and every other function and option that the column
"C++ form" names, is emptied in turn: the function returns a default value, the option keeps its
default. A test that the row names must then fail. Builds the program compat_mutants in BUILD first,
the library of that folder must be there. Rows whose difference begins with *Nominal* say that
nothing is behind the name; they are listed and not mutated. --sample runs N mutants, drawn with the
seed, instead of all."""

import argparse
import os
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

import mutate_headers
import seed_mutants
from count_tests import outcomes

TEST_NAME = re.compile(r"(?<![\w./])[A-Za-z_]\w*\.[A-Za-z_]\w*(?![\w./])")
FILE_SUFFIX = re.compile(r"\.(h|cpp|cu|py|sh|md|def|txt|json)$")
CELL = re.compile(r"(?<!\\)\|")


def read_items(text):
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def names_in(cell):
    """The names a first cell stands for: its text, and each `quoted` part of it."""
    names = {cell.replace("`", "").strip()}
    names.update(part.strip() for part in re.findall(r"`([^`]+)`", cell))
    return names | {re.sub(r"\s*\(.*\)$", "", name) for name in names}


@dataclass
class Row:
    names: set   # what the first cell stands for
    title: str   # the first cell
    form: str    # the cell under "C++ form", else empty
    tests: list
    is_nominal: bool


def read_rows(text):
    """Yields the rows of all tables. The test column is the one whose heading contains "test", else
    the last."""
    columns = previous = None
    for line in text.splitlines():
        if not line.lstrip().startswith("|"):
            columns = previous = None
            continue
        cells = [cell.strip() for cell in CELL.split(line.strip().strip("|"))]
        if all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            columns = [heading.lower() for heading in previous or []]
        elif columns is not None:
            named = dict(zip(columns, cells))
            test = next((c for heading, c in named.items() if "test" in heading), cells[-1])
            tests = [name for name in TEST_NAME.findall(test) if not FILE_SUFFIX.search(name)]
            difference = named.get("deliberately different", "")
            yield Row(names_in(cells[0]), cells[0].replace("`", ""), named.get("c++ form", ""),
                      tests, difference.startswith("*Nominal*"))
        previous = cells


def read_results(junit_path):
    """Suite.Name -> set of outcomes, instances and prefixes of parameterized tests removed."""
    results = {}
    for name, outcome in outcomes(junit_path):
        suite, _, test = name.partition(".")
        parts = suite.split("/")
        # Prefix/Suite for value parameters, Suite/0 for typed ones.
        suites = {part for part in parts if not part.isdigit()}
        for part in suites:
            results.setdefault(f"{part}.{test.split('/')[0]}", set()).add(outcome)
    return results


def check(items, rows, results):
    problems = []
    tests_of = {}
    for row in rows:
        for name in row.names:
            tests_of.setdefault(name, []).extend(row.tests)
    for item in items:
        plain = re.sub(r"\s*\(.*\)$", "", item)
        tests = tests_of.get(item, tests_of.get(plain))
        if tests is None:
            problems.append(f"{item}: no row")
        elif not tests:
            problems.append(f"{item}: the row names no test")
    if results is not None:
        for test in sorted({test for tests in tests_of.values() for test in tests}):
            seen = results.get(test)
            if seen is None:
                problems.append(f"{test}: no such test ran")
            elif "failed" in seen:
                problems.append(f"{test}: failed")
            elif "passed" not in seen:
                problems.append(f"{test}: was skipped")
    return problems


def mutate(root, build, rows, sample, seed):
    """Builds and runs the mutants; returns the exit status."""
    mutants, problems = mutate_headers.plan(root, rows)
    mutate_headers.write(mutants, root, os.path.join(build, "mutants"),
                         os.path.join(build, "src", "libonepass.a"))
    subprocess.run(["cmake", "--build", build, "--target", "compat_mutants"], check=True)
    program = os.path.join(build, "bin", "compat_mutants")
    chosen = mutants
    if sample and sample < len(mutants):
        chosen = sorted(random.Random(seed).sample(mutants, sample), key=lambda m: m.number)
        print(f"{sample} of {len(mutants)} mutants, seed {seed}")
    tests = sorted({test for row in rows for test in row.tests})
    problems += seed_mutants.check_unmutated(program, tests)
    survivors = seed_mutants.run(program, chosen, os.cpu_count())
    emptied = {row.title for mutant in mutants for row in mutant.rows}
    print("nominal: " + ", ".join(row.title for row in rows if row.is_nominal))
    print("nothing to empty: " + ", ".join(row.title for row in rows
                                           if not row.is_nominal and row.title not in emptied))
    for problem in problems + [f"survived: {name}" for name in survivors]:
        print(problem, file=sys.stderr)
    print(f"{len(chosen)} mutants, {len(chosen) - len(survivors)} killed")
    return 1 if problems or survivors or not chosen else 0


def main(arguments):
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    docs = os.path.join(root, "docs")
    parser = argparse.ArgumentParser(description="Checks docs/seed-api.md.")
    parser.add_argument("--items", default=os.path.join(docs, "seed-items.txt"))
    parser.add_argument("--doc", default=os.path.join(docs, "seed-api.md"))
    parser.add_argument("--junit")
    parser.add_argument("--mutate", metavar="BUILD")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    try:
        with open(options.items, encoding="utf-8") as file:
            items = read_items(file.read())
        with open(options.doc, encoding="utf-8") as file:
            rows = list(read_rows(file.read()))
        results = read_results(options.junit) if options.junit else None
    except (OSError, ElementTree.ParseError) as error:
        print(f"seed api: {error}", file=sys.stderr)
        return 1
    problems = check(items, rows, results)
    if not items:
        problems.append(f"{options.items}: no names")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"seed api: {len(items)} names, {len(problems)} problems")
    if problems:
        return 1
    if not options.mutate:
        return 0
    try:
        return mutate(root, options.mutate, rows, options.sample, options.seed)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"seed api: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
