#!/usr/bin/env python3
"""Reads a file written by ctest --output-junit.

count_tests.py JUNIT            prints "passed failed skipped"
count_tests.py --failed JUNIT   prints the names of the failed tests and the end of their output
"""

import sys
import xml.etree.ElementTree as ElementTree


def outcomes(junit_path):
    """Yields (test name, "passed" | "failed" | "skipped")."""
    for case in ElementTree.parse(junit_path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.get("status") == "fail":
            yield case.get("name"), "failed"
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            yield case.get("name"), "skipped"
        else:
            yield case.get("name"), "passed"


def count(junit_path):
    results = [outcome for _, outcome in outcomes(junit_path)]
    return tuple(results.count(kind) for kind in ("passed", "failed", "skipped"))


def failures(junit_path, lines=12):
    """Yields (test name, its last lines of output) of the failed tests."""
    failed = {name for name, outcome in outcomes(junit_path) if outcome == "failed"}
    for case in ElementTree.parse(junit_path).getroot().iter("testcase"):
        if case.get("name") in failed:
            output = (case.findtext("system-out") or "").strip().splitlines()
            yield case.get("name"), output[-lines:]


def main(arguments):
    list_failed = arguments[:1] == ["--failed"]
    paths = arguments[1:] if list_failed else arguments
    if len(paths) != 1:
        sys.exit(__doc__)
    try:
        if not list_failed:
            print(*count(paths[0]))
            return
        for name, output in failures(paths[0]):
            print(f"failed: {name}")
            for line in output:
                print(f"    {line}")
    except (OSError, ElementTree.ParseError) as error:
        sys.exit(f"count_tests: {paths[0]}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
