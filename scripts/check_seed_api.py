#!/usr/bin/env python3
"""check_seed_api.py [--junit FILE] [--items FILE] [--doc FILE]

Checks that every name of docs/seed-items.txt is in the first cell of a table row of
docs/seed-api.md and that the row's test column names at least one test (Suite.Name). With the file
of ctest --output-junit also that each named test passed: at least one test of that name passed and
none failed. A parameterized test is named without its instance."""

import argparse
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

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


def read_rows(text):
    """Yields (names, tests) of every row. The test column is the one whose heading contains "test",
    else the last."""
    test_column = None
    previous = None
    for line in text.splitlines():
        if not line.lstrip().startswith("|"):
            test_column = previous = None
            continue
        cells = [cell.strip() for cell in CELL.split(line.strip().strip("|"))]
        if all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            headings = previous or []
            test_column = next((i for i, heading in enumerate(headings)
                                if "test" in heading.lower()), -1)
        elif test_column is not None and test_column < len(cells):
            tests = [name for name in TEST_NAME.findall(cells[test_column])
                     if not FILE_SUFFIX.search(name)]
            yield names_in(cells[0]), tests
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
    for names, tests in rows:
        for name in names:
            tests_of.setdefault(name, []).extend(tests)
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


def main(arguments):
    docs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs")
    parser = argparse.ArgumentParser(description="Checks docs/seed-api.md.")
    parser.add_argument("--items", default=os.path.join(docs, "seed-items.txt"))
    parser.add_argument("--doc", default=os.path.join(docs, "seed-api.md"))
    parser.add_argument("--junit")
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
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
