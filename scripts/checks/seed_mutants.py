"""Runs the tests of docs/seed-api.md against mutants of the headers (mutate_headers.py).

    survivors = seed_mutants.run("build/dev/bin/compat_mutants", mutants)"""

import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

FAILED = re.compile(r"^\[  FAILED  \] (?:\w+/)?(\w+\.\w+)", re.MULTILINE)
RAN = re.compile(r"^\[ RUN      \] (\S+)", re.MULTILINE)


def test_filter(tests):
    """Of GoogleTest, instances of parameterized tests included."""
    return ":".join(f"{test}:*/{test}/*" for test in tests)


def run_tests(program, tests, number, limit_s):
    """(exit status, output); the status of a run beyond the limit is None."""
    command = [program, f"--gtest_filter={test_filter(tests)}", "--gtest_color=no"]
    command += ["--gtest_fail_fast"] if number else []
    environment = {**os.environ, "ONEPASS_MUTANT": str(number)}
    environment.pop("GTEST_OUTPUT", None)
    try:
        done = subprocess.run(command, env=environment, timeout=limit_s, capture_output=True,
                              text=True, errors="replace", check=False)
    except subprocess.TimeoutExpired as error:
        return None, (error.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout


def verdict(status, output):
    """("killed" or "survived", which test and how)."""
    started = RAN.findall(output)
    last = started[-1] if started else "before any test"
    if status is None:
        return "killed", f"{last} did not end"
    if status < 0:
        return "killed", f"{last} ended with {signal.Signals(-status).name}"
    if status == 0:
        return "survived", ""
    failed = FAILED.search(output)
    return "killed", failed.group(1) if failed else last


def check_unmutated(program, tests):
    """Problems of the tests themselves. Tests of other programs are not run and kill nothing."""
    status, output = run_tests(program, tests, 0, 300)
    return [] if status == 0 else [f"without a mutant: {verdict(status, output)[1]}"]


def run(program, mutants, jobs=1, limit_s=20, report=print):
    """Prints a line for each mutant and row; returns the names of mutants that survived."""
    pairs = [(mutant, row) for mutant in mutants for row in mutant.rows if row.tests]
    survivors = []
    with ThreadPoolExecutor(jobs) as pool:
        results = pool.map(
            lambda pair: verdict(*run_tests(program, pair[1].tests, pair[0].number, limit_s)),
            pairs)
        for (mutant, row), (outcome, how) in zip(pairs, results):
            report(f"{mutant.number:4} {outcome:8} {mutant.name}  <- {row.title}: "
                   f"{how or ', '.join(row.tests)}")
            if outcome == "survived" and mutant.name not in survivors:
                survivors.append(mutant.name)
    return survivors
