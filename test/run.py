#!/usr/bin/env python3
"""Runs the test suites of a build folder (default: all) and counts their test cases.

    test/run.py BUILD [SUITE...]

The last line is "N passed, N failed, N skipped". A case that reports itself skipped (a line "SKIPPED: ...") does not
count as passed. A suite that ends without its summary (a crash, a time-out) counts as one failure. Exit code 1: some
case failed, or no test ran.
"""
import json
import pathlib
import re
import subprocess
import sys

SUMMARY = re.compile(r"\[(?:doctest|unittest)\] test cases:\s*\d+ \|\s*(\d+) passed \|\s*(\d+) failed")


def count(test):
    """(passed, failed, skipped, lines to print) for one suite's record in Meson's log."""
    output = test.get("stdout") or ""
    skips = re.findall(r"^SKIPPED: .*$", output, re.MULTILINE)
    good = test["result"] == "OK"
    summary = SUMMARY.search(output)
    if not summary:  # a program without test cases counts as one case
        return (1, 0, 0, []) if good else (0, 1, 0, [output, test.get("stderr") or ""])
    passed, failed = int(summary[1]), int(summary[2])
    if not good:
        failed = max(failed, 1)
    return passed - len(skips), failed, len(skips), skips + ([] if good else [output, test.get("stderr") or ""])


def main():
    build = pathlib.Path(sys.argv[1])
    log = build / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    subprocess.run(["meson", "test", "-C", str(build), "--no-rebuild", *sys.argv[2:]], stdout=subprocess.DEVNULL)
    if not log.exists():
        print(f"no tests ran: is {build} configured?\n0 passed, 1 failed, 0 skipped")
        return 1
    total = [0, 0, 0]
    for line in log.read_text(encoding="utf-8").splitlines():
        test = json.loads(line)
        passed, failed, skipped, lines = count(test)
        print(f"{test['name']:28} {passed:5} passed {failed:3} failed {skipped:3} skipped   {test['duration']:6.1f} s")
        for text in lines:
            print("    " + text.rstrip().replace("\n", "\n    "))
        total = [a + b for a, b in zip(total, (passed, failed, skipped))]
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] or sum(total) == 0 else 0


sys.exit(main())
