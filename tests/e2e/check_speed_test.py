"""pfcctl check on three hosts: finds a slow host, and has no false findings.

Runs alone, because other tests would make hosts slow. Needs root.
"""

import pathlib
import shutil
import tempfile
import time
import unittest

import fake_time
from check_test import CheckTest
from network import may_limit_speed, may_make_namespaces
from support import BIN, run

SOURCES = pathlib.Path(__file__).parent
NOBODY = 65534


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class Speed(CheckTest):
    SIZE = 112  # pixels; a host without the data assumes this size

    def setUp(self):
        super().setUp()
        # In memory, because another program's use of the disk would make the reads of one host slow.
        memory = tempfile.TemporaryDirectory(dir="/dev/shm")
        self.addCleanup(memory.cleanup)
        pathlib.Path(memory.name).chmod(0o755)
        self.data = pathlib.Path(shutil.copytree(self.data, pathlib.Path(memory.name) / "data"))

    def with_another_clock(self, ahead):
        """Returns a folder with the programs; the worker's clock is `ahead` of the real one."""
        folder = self.folder / "other-clock"
        folder.mkdir()
        shutil.copy(BIN / "pfc-agent", folder)
        (folder / "pfc-worker").write_text(
            f"#!/bin/sh\nexport LD_PRELOAD={fake_time.library()} FAKETIME={ahead} "
            f"FAKETIME_DONT_FAKE_MONOTONIC=1\nexec {BIN / 'pfc-worker'} \"$@\"\n")
        (folder / "pfc-worker").chmod(0o755)
        return folder

    def test_finds_a_missing_file_a_wrong_clock_and_an_unwritable_folder(self):
        some = self.copy_of_data("some")
        (some / "train.rec").unlink()
        self.network.gives_its_own("b", self.data, some)
        (self.folder / "out").mkdir()
        read_only = ("sh", "-c", 'mount -t tmpfs -o ro tmpfs "$0" && exec "$@"', self.folder / "out")
        check, joins = self.begins(self.small_job(output=str(self.folder / "out" / "run")), before=read_only)
        self.starts_agent("b", joins["host-b"])
        self.starts_agent("c", joins["host-c"], programs=self.with_another_clock("+40s"))
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        self.assert_found(report, "host-a", "output", "stops", str(self.folder / "out"), "mount it for writing")
        self.assertFalse([each for each in report["findings"] if each["what"] == "connections"],
                         "a folder that cannot be made is no fault of the network")
        self.assert_found(report, "host-b", "data", "stops", "train.rec: not found", "the same data")
        self.assert_found(report, "host-c", "clock", "note", "accurate to", "time server")
        (clock,) = (each for each in report["findings"] if each["what"] == "clock" and each["host"] == "host-c")
        self.assertAlmostEqual(clock["value"], 40, delta=1)
        self.assert_nothing_wrong(report, "host-c")

    @unittest.skipUnless(may_limit_speed(), "the kernel has no token bucket (tbf)")
    def test_finds_a_worker_of_another_version_and_a_slow_link(self):
        self.network.slow("c", "eth0", "20mbit")
        check, joins = self.begins(None)
        self.starts_agent("b", joins["host-b"], programs=self.patched("pfc-worker"))
        self.starts_agent("c", joins["host-c"])
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        self.assert_found(report, "host-b", "worker", "stops", "pfc-worker 9", "install the same version")
        self.assert_found(report, "host-c", "network", "slows", "Mbit/s", "as between other "
                                                                          "pairs", "cable")
        self.assertEqual(report["workers"], 4, "the others have connected")
        self.assertEqual([each for each in report["findings"] if each["what"] == "connections"], [], "the link is only slow")

    def test_finds_a_slow_disk_a_low_limit_of_processes_and_an_unshared_output(self):
        slow = self.folder / "slow.so"
        self.succeeded(run("gcc", "-shared", "-fPIC", "-o", slow, SOURCES / "slow_disk.c", "-ldl"))
        for folder in (self.folder, self.shared):
            folder.chmod(0o755)
        (self.folder / "out").mkdir()
        (self.folder / "other-out").mkdir()
        self.network.gives_its_own("b", self.folder / "out", self.folder / "other-out")
        (self.folder / "logs").mkdir()
        (self.folder / "logs").chmod(0o777)
        check, joins = self.begins(self.small_job(), LD_PRELOAD=str(slow), SLOW_FOLDER=str(self.folder / "out"))
        self.starts_agent("b", joins["host-b"])
        self.folder.chmod(0o777)
        self.starts_agent("c", joins["host-c"], "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                          "prlimit", "--nproc=100:100")
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        self.assert_found(report, "host-a", "write speed of output", "slows", "MB/s", "faster")
        self.assert_found(report, "host-b", "output", "note", "not shared", "rank 0")
        self.assert_found(report, "host-c", "processes and threads", "stops", "can still start", "ulimit -u")
        self.assert_found(report, "host-c", "output", "stops", "Permission denied", "the right to write")
        self.assert_nothing_wrong(report, "host-b")

    def test_a_check_of_a_good_cluster_exits_with_0_and_leaves_nothing_behind(self):
        self.starts_service()
        begin = time.monotonic()
        done = self.pfcctl("check", "--cluster", "--config", self.small_job())
        seconds = time.monotonic() - begin
        print(done.stdout, done.stderr, f"{seconds:.1f} s")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1].split(" (")[0],
                         "the cluster would run this job: 6 workers on 3 hosts")
        self.assertRegex(done.stdout, r"speed to expect +about [0-9.e+]+ samples/s, [0-9.e+]+ steps/s")
        self.assertLess(seconds, 30)
        self.assertFalse((self.folder / "out").exists(), "the check did not delete its folder")
        self.runs_a_job_then()

    def runs_a_job_then(self):
        """A check leaves the service free for a job, and does not disturb a running one."""
        job = self.small_job(num_epoch=100_000)
        self.succeeded(self.pfcctl("submit", job))
        refused = self.pfcctl("check", "--cluster", "--config", job)
        self.assert_one_line(refused, "a job is running or waiting", code=2)
        self.pfcctl("stop", "--now")


if __name__ == "__main__":
    unittest.main()
