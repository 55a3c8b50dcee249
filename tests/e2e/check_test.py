"""pfcctl check and pfc-coordinator --check: three hosts, which are network namespaces, with faults planted on
them. Each fault must be found, on the right host, and told with its remedy. Needs root.

Faults that do not hide each other are planted in one check. What was found is printed.
"""

import json
import os
import pathlib
import shutil
import subprocess
import time
import unittest

from network import Network, address, may_limit_speed, may_make_namespaces
from support import BIN, LIMIT, JobTest, run

KEYS = "abc"
NAMES = [f"host-{key}" for key in KEYS]
SOURCES = pathlib.Path(__file__).parent
NOBODY = 65534


def library(name):
    """The library of libfaketime, which Debian's faketime brings."""
    found = sorted(pathlib.Path("/usr/lib").glob(f"*/faketime/{name}"))
    assert found, "faketime is not installed (scripts/setup.sh test)"
    return found[0]


class CheckTest(JobTest):
    def setUp(self):
        super().setUp()
        self.network = Network(os.getpid(), KEYS)
        self.agents, self.checks, self.slots, self.service = [], [], 2, None
        self.groups = []

    def tearDown(self):
        for process in self.agents + self.checks:
            if process.poll() is None:
                process.kill()
            process.wait()
            (process.stdout or process.stderr).close()
        if self.service:
            self.ends_service()
        for group in self.groups:
            self.end_group(group)
        try:
            super().tearDown()
        finally:
            self.network.remove()

    def end_group(self, group):
        deadline = time.monotonic() + 10
        while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        group.rmdir()

    def ends_service(self):
        self.service.terminate()
        self.service.communicate(timeout=LIMIT)

    def group(self, controller, **files):
        """A control group with these limits; a command that begins with the result runs in it, and sees it:
        ip netns exec mounts /sys anew."""
        group = pathlib.Path(f"/sys/fs/cgroup/{controller}/pfc-check-{os.getpid()}")
        group.mkdir()
        self.groups.append(group)
        for name, value in files.items():
            (group / name.replace("__", ".")).write_text(str(value))
        mount = f"/sys/fs/cgroup/{controller}"
        return ("sh", "-c", f"mount -t tmpfs tmpfs /sys/fs/cgroup && mkdir {mount} && "
                f"mount -t cgroup -o {controller} cgroup {mount} && echo $$ > {group}/cgroup.procs && "
                'exec "$@"', "sh")

    def hosts(self):
        return ",".join(f"{name}:{self.slots}" for name in NAMES)

    def starts_agent(self, key, join, *before, name=None, programs=BIN, **environment):
        self.agents.append(subprocess.Popen(
            self.network.within(key, *before, programs / "pfc-agent", "--once", "--host", name or f"host-{key}",
                                "--state-dir", self.folder / f"agent-{key}-{len(self.agents)}"),
            env={**self.environment, **environment, "PFC_JOIN": join}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True))

    def begins(self, job, *more, before=(), **environment):
        """A check on host a; returns it and the join strings of the others."""
        command = [BIN / "pfc-coordinator", "--check", "--json", "--hosts", self.hosts(), "--start-timeout", "10s",
                   "--port", 7450, "--http-port", 7451, "--state-dir", self.folder / "state"]
        if job:
            command += ["--config", job]
        with open(self.folder / "report", "w", encoding="utf-8") as report:
            check = subprocess.Popen(
                self.network.within("a", *before, *command, *more), env={**self.environment, **environment},
                stdout=report, stderr=subprocess.PIPE, text=True)
        self.checks.append(check)
        stdout, check.stdout = check.stdout, check.stderr  # what join_strings() reads
        joins = self.join_strings(check, NAMES[1:])
        check.stdout = stdout
        return check, joins

    def ends(self, check):
        """Waits for its end, prints what it has found, and returns that."""
        said = "".join(self.told) + check.communicate(timeout=LIMIT)[1]
        text = (self.folder / "report").read_text(encoding="utf-8")
        self.assertTrue(text, said)
        report = json.loads(text)
        print(f"\n{self.id()}: {report['sentence']} ({report['seconds']:.1f} s)")
        for each in report["findings"]:
            if each["verdict"] != "ok":
                print(f"  {each['verdict']} {each['host']}: {each['what']}: {each['found']} "
                      f"(expected {each['expected']}) -> {each['remedy']}")
        return check.returncode, report, said

    def assert_found(self, report, host, what, verdict, *words):
        """A finding of this host, with its remedy; all words are in what was found, expected and advised."""
        for each in report["findings"]:
            if each["host"] == host and what in each["what"] and each["verdict"] == verdict:
                text = " ".join((each["found"], each["expected"], each["remedy"]))
                if all(word in text for word in words):
                    self.assertTrue(each["remedy"], each)
                    return
        about = [each for each in report["findings"] if each["verdict"] != "ok" or what in each["what"]]
        self.fail(f"no {verdict} of {host} about {what} with {words}:\n" + json.dumps(about, indent=1))

    def assert_nothing_wrong(self, report, *hosts, but=()):
        for each in report["findings"]:
            if each["host"] in hosts and each["what"] not in but:
                self.assertIn(each["verdict"], ("ok", "note"), each)

    def small_job(self, **keys):
        return self.job(**{"batch_size": 8, **keys})

    def patched(self, program):
        """A folder with the programs of another installation, one of which has another version."""
        folder = self.folder / f"other-{program}"
        folder.mkdir()
        version = run(BIN / program, "--version").stdout.split()[-1].encode()
        for name in ("pfc-agent", "pfc-worker"):
            os.link(BIN / name, folder / name) if name != program else None
        text = (BIN / program).read_bytes()
        self.assertIn(version + b"\0", text)
        other = b"9" + version[1:]
        (folder / program).write_bytes(text.replace(version + b"\0", other + b"\0"))
        (folder / program).chmod(0o755)
        return folder


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class Check(CheckTest):
    def firewall(self, key, rule):
        subprocess.run(["ip", "netns", "exec", self.network.names[key], "nft",
                        "add table inet pfc; add chain inet pfc in { type filter hook input priority 0; }; "
                        "add chain inet pfc out { type filter hook output priority 0; }; "
                        f"add rule inet pfc {rule}"], check=True)

    def small_disk(self, target, size):
        """Commands that see a small file system at `target`."""
        return ("sh", "-c", f'mount -t tmpfs -o size={size} tmpfs "$0" && exec "$@"', target)

    def with_another_clock(self, ahead):
        """A folder with the programs; the worker sees a clock that is so much ahead."""
        folder = self.folder / "other-clock"
        folder.mkdir()
        os.link(BIN / "pfc-agent", folder / "pfc-agent")
        (folder / "pfc-worker").write_text(
            f"#!/bin/sh\nexport LD_PRELOAD={library('libfaketimeMT.so.1')} FAKETIME={ahead} "
            f"FAKETIME_DONT_FAKE_MONOTONIC=1\nexec {BIN / 'pfc-worker'} \"$@\"\n")
        (folder / "pfc-worker").chmod(0o755)
        return folder

    def test_other_data_few_open_files_and_a_full_disk(self):
        other = self.folder / "other"
        made = run(BIN / "pfcctl", "data", "synth", "--identities", self.IDENTITIES, "--images-per-identity",
                   self.IMAGES + 1, "--size", self.SIZE, "--out", other)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.network.gives_its_own("b", self.data, other)
        (self.folder / "out").mkdir()
        check, joins = self.begins(self.small_job(), before=self.small_disk(self.folder / "out", "1m"))
        self.starts_agent("b", joins["host-b"])
        self.starts_agent("c", joins["host-c"], "prlimit", "--nofile=60:60")
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        self.assert_found(report, "host-a", "free space of output", "stops", "1.00 MiB", "for its checkpoints",
                          "free some space")
        self.assert_found(report, "host-b", "train.idx", "stops", "88 images", "80 images", "the same data")
        self.assert_found(report, "host-c", "open files", "stops", "60", "ulimit -Hn")
        self.assertEqual(report["workers"], 6, "all were there to the end")

    def test_a_missing_file_a_wrong_clock_and_an_unwritable_folder(self):
        some = self.folder / "some"
        shutil.copytree(self.data, some)
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
        self.assert_found(report, "host-c", "clock", "note", "measured to", "time server")
        (clock,) = (each for each in report["findings"] if each["what"] == "clock" and each["host"] == "host-c")
        self.assertAlmostEqual(clock["value"], 40, delta=1)
        self.assert_nothing_wrong(report, "host-c")

    def test_an_agent_of_another_version(self):
        check, joins = self.begins(None)
        self.starts_agent("b", joins["host-b"], programs=self.patched("pfc-agent"))
        self.starts_agent("c", joins["host-c"])
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        self.assert_found(report, "host-b", "agent", "stops", "runs pfc 9", "install the same version")

    @unittest.skipUnless(may_limit_speed(), "the kernel has no token bucket (tbf)")
    def test_a_worker_of_another_version_and_a_slow_link(self):
        self.network.slow("c", "eth0", "20mbit")
        check, joins = self.begins(None)
        self.starts_agent("b", joins["host-b"], programs=self.patched("pfc-worker"))
        self.starts_agent("c", joins["host-c"])
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        self.assert_found(report, "host-b", "worker", "stops", "pfc-worker 9", "install the same version")
        self.assert_found(report, "host-c", "network", "slows", "Mbit/s", "as other pairs have", "cable")
        self.assertEqual(report["workers"], 4, "the others have connected")
        self.assertEqual([each for each in report["findings"] if each["what"] == "connections"], [], "only slow")

    def test_a_firewall_between_the_workers(self):
        self.firewall("c", "in tcp flags & (syn|ack) == syn drop")
        check, joins = self.begins(None)
        for key in "bc":
            self.starts_agent(key, joins[f"host-{key}"])
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        self.assert_found(report, "host-c", "network", "stops", "to host-c", "timed out", "firewalls")
        self.assertEqual([each["host"] for each in report["findings"] if each["what"] == "network"], ["host-c"])
        self.assertEqual(report["workers"], 4, "the others have connected")

    def test_a_closed_port_of_the_coordinator_and_two_hosts_with_one_name(self):
        self.firewall("b", "out tcp dport 7450 drop")
        check, joins = self.begins(None)
        self.starts_agent("b", joins["host-b"])
        self.starts_agent("c", joins["host-c"])
        self.told += self.read_until_stderr(check, "waiting for host-b to register")
        self.network_of_clash(joins["host-c"])
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        self.assert_found(report, "host-b", "agent", "stops", "none has registered", "pfc-agent --join", "firewalls")
        self.assert_found(report, "host-c", "agent", "stops", "another agent was refused", address(1), "token",
                          "end one of the two")

    def test_no_gpu_and_little_shared_memory(self):
        check, joins = self.begins(self.small_job(device="cuda"))
        self.starts_agent("b", joins["host-b"])
        self.starts_agent("c", joins["host-c"], *self.small_disk("/dev/shm", "8m"))
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        for name in NAMES:
            self.assert_found(report, name, "device", "stops", "CUDA", "driver")
        self.assert_found(report, "host-c", "shared memory", "stops", "8.00 MiB free in /dev/shm", "--shm-size")

    @unittest.skipUnless(os.path.isdir("/sys/fs/cgroup/memory"), "needs control groups of version 1")
    def test_too_little_memory_and_few_cores(self):
        self.slots = 1
        check, joins = self.begins(self.small_job(network="r18", batch_size=16))
        self.starts_agent("b", joins["host-b"], *self.group("memory", memory__limit_in_bytes=700 << 20))
        self.starts_agent("c", joins["host-c"], "taskset", "-c", "0")
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        self.assert_found(report, "host-b", "memory of a worker", "stops", "memory.limit_in_bytes", "batch_size to")
        self.assert_found(report, "host-c", "cores of a worker", "slows", "CPU limit")

    def test_a_slow_disk_few_processes_and_an_output_of_its_own(self):
        slow = self.folder / "slow.so"
        made = run("gcc", "-shared", "-fPIC", "-o", slow, SOURCES / "slow_disk.c", "-ldl")
        self.assertEqual(made.returncode, 0, made.stderr)
        for folder in (self.folder, self.shared, self.data):
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
        self.assert_found(report, "host-c", "processes and threads", "stops", "more", "ulimit -u")
        self.assert_found(report, "host-c", "output", "stops", "Permission denied", "the right to write")
        self.assert_nothing_wrong(report, "host-b")

    def read_until_stderr(self, process, text):
        lines = []
        for line in process.stderr:
            lines.append(line)
            if text in line:
                return lines
        self.fail(f"{text!r} did not appear in:\n" + "".join(lines))

    def network_of_clash(self, join):
        """Somebody on host a starts an agent with the name of host c."""
        self.starts_agent("a", join, name="host-c")


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class HealthyCluster(CheckTest):
    def pfcctl(self, *words):
        return run(*self.network.within("a", BIN / "pfcctl", *words, "--state-dir", self.folder / "state"),
                   env=self.environment)

    def starts_service(self):
        self.service = subprocess.Popen(
            self.network.within("a", BIN / "pfc-coordinator", "--hosts", self.hosts(), "--port", 7450, "--http-port",
                                7451, "--state-dir", self.folder / "state"),
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        joins = self.join_strings(self.service, NAMES[1:])
        for key in "bc":
            self.starts_agent(key, joins[f"host-{key}"])

    def test_has_exit_code_0_and_changes_nothing(self):
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
        self.assertFalse((self.folder / "out").exists(), "the folder was there for the check alone")
        self.runs_a_job_then()

    def runs_a_job_then(self):
        """Which a check does not disturb."""
        job = self.small_job(max_steps=200, num_epoch=1000)
        submitted = self.pfcctl("submit", job)
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        refused = self.pfcctl("check", "--cluster", "--config", job)
        self.assert_one_line(refused, "a job runs or waits here", code=2)
        self.pfcctl("stop", "--now")

    def test_a_job_whose_data_are_nowhere_is_told_of(self):
        self.starts_service()
        done = self.pfcctl("check", "--cluster", "--json", "--config", self.small_job(rec=str(self.folder / "nothing")))
        self.assertEqual(done.returncode, 1, done.stderr)
        report = json.loads(done.stdout)
        for name in NAMES:
            self.assert_found(report, name, "data", "stops", "not found", "the same data")

    def test_a_folder_for_staging_that_no_host_has_is_told_of(self):
        self.starts_service()
        done = self.pfcctl("check", "--cluster", "--json", "--config",
                           self.small_job(stage=str(self.folder / "nowhere"), precision="auto"))
        self.assertEqual(done.returncode, 1, done.stderr)
        report = json.loads(done.stdout)
        for name in NAMES:
            self.assert_found(report, name, "stage", "stops", "no such folder on this host", "leave stage out")


if __name__ == "__main__":
    unittest.main()
