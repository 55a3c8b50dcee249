"""pfcctl check and pfc-coordinator --check on three hosts (network namespaces) with injected faults.

Each fault must be found on the right host and reported with its remedy. Faults that do not hide each other share a
check. Prints the findings. Needs root. check_speed_test.py tests findings about speed.
"""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

from hosts import HostsTest
from network import address, may_make_namespaces
from support import BIN, LIMIT, run


class CheckTest(HostsTest):
    def setUp(self):
        super().setUp()
        self.slots, self.service, self.groups = 2, None, []

    def tearDown(self):
        for process in self.agents:
            if process.poll() is None:
                process.kill()
            process.wait()
        if self.service:
            self.ends_service()
        for group in self.groups:
            self.end_group(group)
        super().tearDown()

    def end_group(self, group):
        self.wait_for("the group is empty", lambda: not (group / "cgroup.procs").read_text(), pause=0.1)
        group.rmdir()

    def ends_service(self):
        self.service.terminate()
        self.service.communicate(timeout=LIMIT)

    def group(self, controller, **files):
        """Returns the prefix of a command that runs in a new control group with these limits. The prefix mounts the
        group for the command, because ip netns exec mounts a new /sys."""
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
        return ",".join(f"{name}:{self.slots}" for name in self.NAMES)

    def starts_agent(self, key, join, *before, name=None, programs=BIN, **environment):
        self.agents.append(self.on_host(key, *before, programs / "pfc-agent", "--once", "--host", name or f"host-{key}",
                                        "--state-dir", self.folder / f"agent-{key}-{len(self.agents)}", PFC_JOIN=join, **environment))

    def begins(self, job, *more, before=(), **environment):
        """Starts a check on host a; returns it and the join strings of the others."""
        command = [BIN / "pfc-coordinator", "--check", "--json", "--hosts", self.hosts(), "--start-timeout", "10s",
                   "--port", 7450, "--http-port", 7451, "--state-dir", self.folder / "state"]
        if job:
            command += ["--config", job]
        with open(self.folder / "report", "w", encoding="utf-8") as report:
            check = subprocess.Popen(
                self.network.within("a", *before, *command, *more), env={**self.environment, **environment},
                stdout=report, stderr=subprocess.PIPE, text=True)
        self.agents.append(check)
        return check, self.join_strings(check, self.NAMES[1:])

    def ends(self, check):
        """Waits for the end of the check, prints its findings and returns them."""
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
        """Asserts a finding of this host with a remedy; found, expected and advice contain all words."""
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
        """Returns a folder with the programs; one of them has another version."""
        folder = self.folder / f"other-{program}"
        folder.mkdir()
        version = run(BIN / program, "--version").stdout.split()[-1].encode()
        for name in {"pfc-agent", "pfc-worker"} - {program}:
            shutil.copy(BIN / name, folder)
        text = (BIN / program).read_bytes()
        self.assertIn(version + b"\0", text)
        other = b"9" + version[1:]
        (folder / program).write_bytes(text.replace(version + b"\0", other + b"\0"))
        (folder / program).chmod(0o755)
        return folder

    def starts_service(self):
        self.service = self.starts_coordinator("--hosts", self.hosts())
        joins = self.join_strings(self.service, self.NAMES[1:])
        for key in "bc":
            self.starts_agent(key, joins[f"host-{key}"])


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class Check(CheckTest):
    SIZE = 112  # pixels; a worker with smaller images needs too little memory

    def firewall(self, key, rule):
        subprocess.run(["ip", "netns", "exec", self.network.names[key], "nft",
                        "add table inet pfc; add chain inet pfc in { type filter hook input priority 0; }; "
                        "add chain inet pfc out { type filter hook output priority 0; }; "
                        f"add rule inet pfc {rule}"], check=True)

    def small_disk(self, target, size):
        """Returns commands that mount a small file system at `target`."""
        return ("sh", "-c", f'mount -t tmpfs -o size={size} tmpfs "$0" && exec "$@"', target)

    def test_finds_different_data_a_low_limit_of_open_files_and_a_full_disk(self):
        other = self.folder / "other"
        self.succeeded(run(BIN / "pfcctl", "data", "synth", "--identities", self.IDENTITIES, "--images-per-identity",
                           self.IMAGES + 1, "--size", self.SIZE, "--out", other))
        self.network.gives_its_own("b", self.data, other)
        (self.folder / "out").mkdir()
        check, joins = self.begins(self.small_job(), before=self.small_disk(self.folder / "out", "1m"))
        self.starts_agent("b", joins["host-b"])
        self.starts_agent("c", joins["host-c"], "prlimit", "--nofile=60:60")
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        self.assert_found(report, "host-a", "free space of output", "stops", "1.00 MiB", "for its checkpoints",
                          "free space")
        self.assert_found(report, "host-b", "train.idx", "stops", "88 images", "80 images", "the same data")
        self.assert_found(report, "host-c", "open files", "stops", "60", "ulimit -Hn")
        self.assertEqual(report["workers"], 6, "not all workers took part to the end")

    def test_finds_an_agent_of_another_version(self):
        check, joins = self.begins(None)
        self.starts_agent("b", joins["host-b"], programs=self.patched("pfc-agent"))
        self.starts_agent("c", joins["host-c"])
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        self.assert_found(report, "host-b", "agent", "stops", "runs pfc 9", "install the same version")

    def test_finds_a_firewall_between_the_workers(self):
        self.firewall("c", "in tcp flags & (syn|ack) == syn drop")
        check, joins = self.begins(None)
        for key in "bc":
            self.starts_agent(key, joins[f"host-{key}"])
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        self.assert_found(report, "host-c", "network", "stops", "to host-c", "timed out", "firewalls")
        self.assertEqual([each["host"] for each in report["findings"] if each["what"] == "network"], ["host-c"])
        self.assertEqual(report["workers"], 4, "the others have connected")

    def test_finds_a_closed_port_of_the_coordinator_and_two_hosts_with_one_name(self):
        self.firewall("b", "out tcp dport 7450 drop")
        check, joins = self.begins(None)
        self.starts_agent("b", joins["host-b"])
        self.starts_agent("c", joins["host-c"])
        self.told += self.read_until(check, "waiting for host-b to register")
        self.network_of_clash(joins["host-c"])
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        self.assert_found(report, "host-b", "agent", "stops", "none has registered", "pfc-agent --join", "firewalls")
        self.assert_found(report, "host-c", "agent", "stops", "another agent was refused", address(1), "token",
                          "end one of the two")

    def test_finds_a_missing_gpu_and_little_shared_memory(self):
        check, joins = self.begins(self.small_job(device="cuda"))
        self.starts_agent("b", joins["host-b"])
        self.starts_agent("c", joins["host-c"], *self.small_disk("/dev/shm", "8m"))
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        for name in self.NAMES:
            self.assert_found(report, name, "device", "stops", "CUDA", "driver")
        self.assert_found(report, "host-c", "shared memory", "stops", "8.00 MiB free in /dev/shm", "--shm-size")

    @unittest.skipUnless(os.path.isdir("/sys/fs/cgroup/memory"), "needs control groups of version 1")
    def test_finds_too_little_memory_and_few_cores(self):
        self.slots = 1
        check, joins = self.begins(self.small_job(network="r18", batch_size=16))
        self.starts_agent("b", joins["host-b"], *self.group("memory", memory__limit_in_bytes=700 << 20))
        self.starts_agent("c", joins["host-c"], "taskset", "-c", "0")
        code, report, _ = self.ends(check)
        self.assertEqual(code, 1)
        self.assert_found(report, "host-b", "memory of a worker", "stops", "memory.limit_in_bytes", "batch_size to")
        self.assert_found(report, "host-c", "cores of a worker", "slows", "CPU limit")

    def network_of_clash(self, join):
        """Starts an agent on host a with the name of host c."""
        self.starts_agent("a", join, name="host-c")


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class Service(CheckTest):
    def test_missing_data_and_missing_staging_folders_are_reported(self):
        self.starts_service()
        for what, words, keys in (
                ("data", ("not found", "the same data"), dict(rec=str(self.folder / "nothing"))),
                ("stage", ("no such folder on this host", "or remove it"),
                 dict(stage=str(self.folder / "nowhere"), precision="auto"))):
            with self.subTest(what):
                done = self.pfcctl("check", "--cluster", "--json", "--config", self.small_job(**keys))
                self.assertEqual(done.returncode, 1, done.stderr)
                report = json.loads(done.stdout)
                for name in self.NAMES:
                    self.assert_found(report, name, what, "stops", *words)


if __name__ == "__main__":
    unittest.main()
