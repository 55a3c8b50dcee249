"""Prints the seconds of each test method, one per line. Importing this module enables it.

A line is "time: restart_test.Restart.test_x 12.3 s", or "skipped: restart_test.Restart.test_x". If more than a
second passes between two methods, it is counted as the setUpClass of the second method's class.
"""

import pathlib
import sys
import time
import unittest

WORTH_A_LINE = 1.0  # seconds between two methods


class TimedResult(unittest.TextTestResult):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.last = time.monotonic()
        self.was_skipped = False

    def startTest(self, test):
        self.was_skipped = False
        now = time.monotonic()
        if now - self.last > WORTH_A_LINE:
            self.tell(f"{self.name_of(test).rsplit('.', 1)[0]}.setUpClass", now - self.last)
        self.last = now
        super().startTest(test)  # prints the name, without an end of the line

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.was_skipped = True
        print(f"skipped: {self.name_of(test)}", flush=True)

    def stopTest(self, test):
        super().stopTest(test)
        now = time.monotonic()
        if not self.was_skipped:
            self.tell(self.name_of(test), now - self.last)
        self.last = now

    def tell(self, name, seconds):
        before = "\n" if self.dots else ""  # a dot is there already
        print(f"{before}time: {name} {seconds:.1f} s", flush=True)

    @staticmethod
    def name_of(test):
        """Returns the name with the file instead of __main__."""
        return test.id().replace("__main__", pathlib.Path(sys.argv[0]).stem, 1)


unittest.TextTestRunner.resultclass = TimedResult
