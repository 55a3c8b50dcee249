"""Base class of the end-to-end tests: runs the programs on a small data set and reads their output."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
import uuid

import data_set

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import seconds  # noqa: E402, F401  prints the time of each test

BIN = pathlib.Path(os.environ["PFC_BIN"])
LIMIT = int(os.environ.get("PFC_E2E_LIMIT", 600))  # timeout of one program in seconds


def run(*command, **options):
    """Runs a program to its end; returns it with .stdout, .stderr and .returncode."""
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=LIMIT, **options)


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


class JobTest(unittest.TestCase):
    """A test with its own folder. It reads a tiny data set that other tests share."""

    IDENTITIES = 8
    IMAGES = 10
    SIZE = 32  # pixels; a step with 112 takes eight times as long

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="pfc-e2e-"))
        parameters = (cls.IDENTITIES, cls.IMAGES, cls.SIZE)
        cls.data = data_set.shared(*parameters) or data_set.draw(cls.shared / "data", *parameters)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared, ignore_errors=True)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.shared))
        # Marks the environment of every process of this test.
        self.mark = f"PFC_TEST_MARK={uuid.uuid4()}"
        key, value = self.mark.split("=")
        self.environment = {**os.environ, key: value, "PFC_STATE_DIR": str(self.folder / "pfc"),
                            "XDG_STATE_HOME": str(self.folder / "logs")}

    def copy_of_data(self, name="copy"):
        """Copies the data for a test that changes them."""
        return pathlib.Path(shutil.copytree(self.data, self.folder / name))

    def tearDown(self):
        left = self.processes()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(left, [], "processes were left behind")

    def processes(self):
        """Returns the ids of living processes that this test started, at any depth."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if state != "Z" and self.mark in (entry / "environ").read_text(errors="replace"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def wait_until_all_have_ended(self):
        """Waits for processes that a killed coordinator left to end by themselves."""
        self.wait_for("processes still run", lambda: not self.processes(), pause=0.2)

    def workers(self):
        """Returns {rank: pid} of this test's living workers. The job has one host, so slots are ranks."""
        ranks = {}
        for pid in self.processes():
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            if words[0].endswith("pfc-worker") and "--slot" in words:
                ranks[int(words[words.index("--slot") + 1])] = pid
        return ranks

    def job(self, name="job.json", **keys):
        """Writes a job file with a few quick steps; keys override or add."""
        job = {
            "network": "mbf", "embedding_size": 64, "batch_size": 4, "num_epoch": 4,
            "lr": 0.02, "margin_scale": 16, "rec": str(self.data),
            "output": str(self.folder / "out"), "num_workers": 1, "frequent": 1, "verbose": 0,
        }
        job.update(keys)
        path = self.folder / name
        path.write_text(json.dumps(job))
        return path

    def coordinator(self, workers, job, *more):
        return [str(word) for word in (
            BIN / "pfc-coordinator", "--hosts", f"localhost:{workers}", "--config", job,
            "--port", 0, "--http-port", 0, "--state-dir", self.folder / "state", *more)]

    def train(self, workers, job, *more):
        return run(*self.coordinator(workers, job, *more), env=self.environment)

    def finished(self, workers, job, *more):
        return self.succeeded(self.train(workers, job, *more))

    def start(self, workers, job, *more, until=None):
        """Starts a job. Returns when its output has this text, and leaves it running."""
        process = self.background(*self.coordinator(workers, job, *more))
        if until:
            self.read_until(process, until)
        return process

    def background(self, *command, **environment):
        """Starts a program whose stdout also has its stderr."""
        return subprocess.Popen([str(word) for word in command], env={**self.environment, **environment},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def pfcctl(self, *words):
        """Runs pfcctl with the coordinator of start() or train()."""
        return run(BIN / "pfcctl", *words, "--state-dir", self.folder / "state", env=self.environment)

    def succeeded(self, done):
        """Returns a program that has ended, if its exit code is 0."""
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def ended(self, process, code=0):
        """Waits until a background program ends with this exit code; returns its output."""
        output, _ = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, code, output)
        return output

    def stopped(self, process):
        """Stops a job with SIGTERM; returns its output."""
        process.terminate()
        return self.ended(process, 143)

    def wait_for(self, what, condition, pause=0.02):
        """Waits until the condition is true; returns its value."""
        deadline = time.monotonic() + LIMIT
        while not (value := condition()):
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(pause)
        return value

    def read_until(self, process, text):
        """Reads the process's output up to a line that contains `text`; returns all lines read."""
        lines = []
        for line in process.stdout or process.stderr:
            lines.append(line)
            if text in line:
                return lines
        self.fail(f"{text!r} did not appear in:\n" + "".join(lines))

    def join_strings(self, process, hosts):
        """Reads a coordinator's output until it has printed how each of these hosts joins; returns {host: join
        string} and keeps the lines in self.told."""
        joins, self.told = {}, []
        for line in process.stdout or process.stderr:
            self.told.append(line)
            found = re.search(r"host (\S+): run there: pfc-agent --join '(\S+)' --host (\S+)", line)
            if found:
                self.assertEqual(found[1], found[3])
                joins[found[1]] = found[2]
            if set(joins) == set(hosts):
                return joins
        self.fail("not all hosts were told how to join:\n" + "".join(self.told))

    @staticmethod
    def http_port(lines):
        return re.search(r"http://127\.0\.0\.1:(\d+)", "".join(lines))[1]

    def page_token(self, role="admin"):
        return (self.folder / "state" / "security" / f"{role}.token").read_text().strip()

    def page(self, port, path):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}",
                                         headers={"Authorization": f"Bearer {self.page_token()}"})
        with urllib.request.urlopen(request, timeout=LIMIT) as page:
            return page.read().decode()

    def metrics(self, output=None):
        path = pathlib.Path(output or self.folder / "out") / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def of_steps(self, key, output="out"):
        """Returns this value of each step of the job with this output folder."""
        return [m[key] for m in self.metrics(self.folder / output) if m["kind"] == "step"]

    def assert_one_line(self, process, *words, code=None):
        """Asserts that the program failed, and that its last line on stderr contains all the words."""
        self.assertNotEqual(process.returncode, 0, process.stdout)
        if code is not None:
            self.assertEqual(process.returncode, code, process.stderr)
        last = process.stderr.strip().splitlines()[-1]
        for word in words:
            self.assertIn(word, last)


def plain_set(data, folder, images):
    """Writes the images of `data` repeatedly, as a set without a number of classes."""
    folder.mkdir()
    shutil.copy(data / "train.rec", folder)
    lines = [line.split("\t") for line in (data / "train.idx").read_text().splitlines()]
    offsets = [offset for key, offset in lines if 1 <= int(key) <= JobTest.IDENTITIES * JobTest.IMAGES]
    index = "".join(f"{key}\t{offsets[key % len(offsets)]}\n" for key in range(1, images + 1))
    (folder / "train.idx").write_text(index)
    return folder
