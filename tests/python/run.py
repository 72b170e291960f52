# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""run.py NAME: the cases of cases_NAME.py, with the output of tests/support/test.h and its exit status."""
import importlib
import os
import sys
import unittest

SKIPS_FAIL = os.environ.get("HMREG_TEST_NO_SKIP") == "1"


class Result(unittest.TestResult):
    passed = 0

    def addSuccess(self, test):
        self.passed += 1
        print("[       OK ]", test.id(), flush=True)

    def failed(self, test, error):
        print("[  FAILED  ]", test.id())
        print(self._exc_info_to_string(error, test), flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.failed(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.failed(test, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print("[  SKIPPED ]", test.id())
        print("    would be skipped, and skips are failures here:" if SKIPS_FAIL else "SKIPPED because:", reason)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    tests = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module("cases_" + sys.argv[1]))
    result = Result()
    tests.run(result)
    skipped = 0 if SKIPS_FAIL else len(result.skipped)
    failed = len(result.failures) + len(result.errors) + len(result.skipped) - skipped
    print(f"{result.passed} passed, {failed} failed, {skipped} skipped", flush=True)
    sys.exit(1 if failed or not result.passed + skipped else 0 if result.passed else 77)
