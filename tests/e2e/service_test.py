#!/usr/bin/env python3
"""A coordinator as a service: jobs one after another, agents that stay, logs. Most workers only simulate training
(tests/coordinator/fake_worker.cc), so that twenty jobs take seconds."""

import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import unittest

import fake_time
from support import BIN, LIMIT, JobTest, run

FAKE = pathlib.Path(os.environ["PFC_FAKE"])


class ServiceTest(JobTest):
    def setUp(self):
        super().setUp()
        self.mark = f"PFC_TEST_MARK={self.folder}"  # a fake worker writes its checkpoint there
        self.environment["PFC_TEST_MARK"] = str(self.folder)
        self.environment["PFC_COORDINATOR_GRACE"] = "3s"  # for coordinators that a test kills
        self.started = []

    def tearDown(self):
        for process in self.started:
            self.kills(process)
            process.stderr_file.close()
        self.wait_until_all_have_ended()
        super().tearDown()

    def starts(self, name, *command, **more):
        """Starts a program in the background with its stderr in a file."""
        output = open(self.folder / f"{name}.err", "w")
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=output,
                                   env={**self.environment, **more})
        process.stderr_file = output
        self.started.append(process)
        return process

    @staticmethod
    def kills(process):
        process.kill()
        process.wait()

    def ends(self, process):
        process.terminate()
        self.assertEqual(process.wait(LIMIT), 143)

    def said(self, name):
        return (self.folder / f"{name}.err").read_text()

    def service(self, name="service", hosts="localhost:2", programs=FAKE, *more):
        process = self.starts(name, programs / "pfc-coordinator", "--hosts", hosts, "--port", 0, "--http-port", 0,
                              "--state-dir", self.folder / name, *more)
        self.wait_for("an address", lambda: "listening on" in self.said(name))
        return process

    def address(self, name="service"):
        return re.search(r"listening on (\S+) and", self.said(name))[1]

    def ctl(self, *words, name="service", cwd=None):
        return run(BIN / "pfcctl", *words, "--state-dir", self.folder / name, env=self.environment, cwd=cwd)

    def fake_job(self, fate="complete", name="job.json", **keys):
        path = self.folder / name
        path.write_text(json.dumps({"network": "r18", "rec": "somewhere", "notes": fate, **keys}))
        return path

    def submit(self, fate="complete", name="service", **keys):
        return self.succeeded(self.ctl("submit", self.fake_job(fate, **keys), name=name)).stdout.strip()

    def queue(self, name="service"):
        return json.loads(self.succeeded(self.ctl("queue", "--json", name=name)).stdout)

    def jobs(self, name="service"):
        return {job["job_id"]: job for job in self.queue(name)["jobs"]}

    def state_of(self, job, name="service"):
        return self.jobs(name)[job]["state"]

    def wait_until(self, job, *states, name="service"):
        self.wait_for(f"job {job} {states}", lambda: self.state_of(job, name) in states)

    def wait_for_training(self, name="service"):
        self.wait_for("training", lambda: self.ctl("status", name=name).stdout.count("training") > 1)

    @staticmethod
    def name_of(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            return ""

    def resident(self, process):
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


class Service(ServiceTest):
    def test_twenty_jobs_run_in_order_although_some_are_stopped_fail_or_are_refused(self):
        service = self.service()
        fates = ["complete"] * 20
        fates[3], fates[5], fates[9] = "until_stop", "fails:1", "until_stop"
        jobs = [self.submit(fate) for fate in fates]
        refused = self.ctl("submit", self.fake_job(netwrk="r18"))
        self.assert_one_line(refused, "netwrk", "network", "job.json", code=2)
        taken = self.ctl("stop", jobs[9])
        self.assertEqual(taken.stdout, "the job was removed from the queue\n", taken.stderr)
        self.wait_until(jobs[3], "running")
        self.wait_for_training()
        self.assertEqual(self.ctl("stop").returncode, 0)
        self.wait_until(jobs[-1], "completed")
        queue = self.queue()
        self.assertEqual(queue["refused"], 1)
        ended = self.jobs()
        expected = {3: "stopped", 5: "failed", 9: "stopped"}
        self.assertEqual([ended[job]["state"] for job in jobs],
                         [expected.get(i, "completed") for i in range(20)])
        self.assertIn("rank 1", ended[jobs[5]]["message"])
        self.assertIn("loss is not finite at step 3", ended[jobs[5]]["message"])
        self.assertIn("pfcctl stop", ended[jobs[3]]["message"])
        self.assertIsNone(ended[jobs[9]]["started"])
        ran = [ended[job] for job in jobs if ended[job]["started"]]
        for before, after in zip(ran, ran[1:]):
            self.assertLessEqual(before["ended"], after["started"] + 0.002)
        warm = self.resident(service)
        last = [self.submit() for _ in range(20)][-1]
        self.wait_until(last, "completed")
        grown = self.resident(service) - warm
        print(f"resident memory after 40 jobs: {grown / 1024:.0f} KiB more than the {warm / 1024:.0f} KiB after 20")
        self.assertLess(grown, 4 << 20)
        self.ends(service)
        self.assertIn("pfc-coordinator: service ended by SIGTERM", self.said("service").splitlines()[-1])

    def test_a_service_that_a_kubelet_restarts_keeps_its_queue(self):
        """Acts like a kubelet: sends SIGTERM, then SIGKILL to what still runs after the grace period, and runs the same
        command with the same state folder."""
        service = self.service()
        running, stubborn, waiting = self.submit("until_stop"), self.submit("stubborn:1"), self.submit()
        self.wait_for_training()
        self.ends(service)
        self.assertRegex(self.said("service"), rf"warning: .*2 jobs stay in the queue.*{stubborn}.*{waiting}")
        self.assertRegex(self.said("service"), rf"job {running} .*: job stopped by SIGTERM")

        second = self.starts("second", *service.args)
        self.wait_for("an address", lambda: "listening on" in self.said("second"))
        self.wait_until(stubborn, "running")
        self.assertEqual([self.state_of(job) for job in (running, waiting)], ["stopped", "waiting"])
        self.wait_for("training", lambda: "training" in self.ctl("status").stdout)
        second.send_signal(signal.SIGTERM)  # rank 1 ignores it
        self.wait_for("its end", lambda: "1 job stays in the queue" in self.said("second"))
        self.kills(second)

        third = self.starts("third", *service.args)
        self.wait_for("an address", lambda: "listening on" in self.said("third"))
        self.wait_until(waiting, "completed")
        self.assertIn(self.state_of(stubborn), ("stopped", "failed"))
        self.ends(third)
        self.assertEqual(list((self.folder / "service" / "journals").glob("*.journal")), [], "an empty queue is not kept")

    def test_a_service_exits_with_1_if_its_last_job_was_ended_by_force(self):
        service = self.service()
        self.submit("stubborn:1")
        self.wait_for("training", lambda: self.ctl("status").stdout.count("joined") + self.ctl(
            "status").stdout.count("training") > 1)
        for number in (signal.SIGTERM, signal.SIGINT):
            service.send_signal(number)
        self.assertEqual(service.wait(LIMIT), 1)

    def test_a_service_rejects_invalid_calls_with_one_line(self):
        self.service()
        self.assert_one_line(self.ctl("stop"), "no job is running", code=2)
        self.assert_one_line(self.ctl("stop", "0000"), "0000", "pfcctl queue", code=2)
        self.assert_one_line(self.ctl("logs", "--rank", 0), "no job", code=2)
        self.assertEqual(json.loads(self.ctl("status", "--json").stdout)["state"], "idle")
        self.assertIn("no job is waiting", self.ctl("queue").stdout)
        self.assertIn("\nidle: no job is waiting\n", self.ctl("status").stdout)
        one = self.starts("one", FAKE / "pfc-coordinator", "--config", self.fake_job("until_stop"), "--port", 0,
                          "--http-port", 0, "--state-dir", self.folder / "one")
        self.wait_for("an address", lambda: "listening on" in self.said("one"))
        self.assert_one_line(self.ctl("submit", self.fake_job(), name="one"), "runs a single job", code=2)
        self.ends(one)

    def test_a_service_restarts_its_own_agent_and_continues_with_the_next_job(self):
        self.service()
        first = self.submit("until_stop")
        self.wait_for_training()
        os.kill(next(pid for pid in self.processes() if self.name_of(pid) == "pfc-agent"), signal.SIGKILL)
        self.wait_until(first, "failed")
        self.assertIn("killed by signal 9", self.jobs()[first]["message"])
        self.wait_until(self.submit(), "completed")


class Submitter(ServiceTest):
    """Runs pfcctl as another user (as `nobody` if the test runs as root), who has only the access file from an admin."""

    def setUp(self):
        super().setUp()
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="pfc-colleague-"))
        self.user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}

    def tearDown(self):
        shutil.rmtree(self.home)
        super().tearDown()

    def gives(self, name, text):
        path = self.home / name
        path.write_text(text)
        path.chmod(0o600)
        if self.user:
            for each in (self.home, path):
                os.chown(each, 65534, 65534)
        return path

    def calls(self, *words):
        return run(BIN / "pfcctl", *words, "--access-file", self.home / "pfc-access", cwd=self.home, **self.user,
                   env={**self.environment, "PFC_STATE_DIR": str(self.home / "state"), "HOME": str(self.home)})

    def test_a_submitter_stops_only_its_own_jobs_also_after_a_takeover(self):
        self.environment["PFC_COORDINATOR_GRACE"] = "60s"
        service = self.service()
        self.gives("pfc-access", self.ctl("token", "create", "--role", "submitter").stdout)
        token = self.ctl("token", "list").stdout.splitlines()[-1].split()
        self.assertEqual(token[1:3], ["submitter", "valid"])
        self.gives("job.json", self.fake_job("until_stop").read_text())
        submitted = self.succeeded(self.calls("submit", "job.json", "--name", "night run"))
        own, other = submitted.stdout.strip(), self.submit("until_stop")
        self.wait_for("training", lambda: self.calls("status").stdout.count("training") > 1)
        self.assertIn(f"job {own} (night run)", self.calls("status").stdout)
        self.assertIn(f"night run, {self.home}/work_dirs/job", self.calls("queue").stdout)
        self.assertEqual([self.jobs()[job]["submitter"] for job in (own, other)], [token[0], ""])

        self.kills(service)
        again = self.starts("again", *service.args)
        self.wait_for("their return", lambda: "are back after" in self.said("again"))
        for words in (("stop", other), ("logs", other)):
            self.assert_one_line(self.calls(*words), "submitted with another credential", "ask an admin", code=2)
        self.assert_one_line(self.calls("drain", "localhost"), "role submitter does not allow", "security.md", code=2)
        self.assertIn("world size 2", self.calls("logs").stdout)
        self.assertEqual(self.calls("stop").returncode, 0)
        self.wait_until(own, "stopped")
        self.wait_until(other, "running")
        self.assert_one_line(self.calls("stop"), "submitted with another credential", code=2)

        self.assertEqual(self.ctl("token", "revoke", token[0]).returncode, 0)
        self.assert_one_line(self.calls("queue"), "was revoked", code=2)
        audit = [json.loads(line) for line in self.ctl("audit", "--json").stdout.splitlines()]
        self.assertIn(("submit", "ok", "submitter", token[0]),
                      [(line["what"], line["result"], line["role"], line.get("credential")) for line in audit])
        newest = self.ctl("audit", "--tail", 1).stdout.splitlines()
        self.assertEqual(len(newest), 2)
        self.assertRegex(newest[1], rf"QueueRequest +revoked_token .* token {token[0]} was revoked$")
        self.ends(again)


class Logs(ServiceTest):
    def test_a_rank_log_can_be_read_during_its_job_and_afterwards(self):
        self.service()
        job = self.submit("until_stop")
        self.wait_for_training()
        follower = subprocess.Popen(
            [str(word) for word in (BIN / "pfcctl", "logs", "--rank", 1, "--follow", "--state-dir",
                                    self.folder / "service")], stdout=subprocess.PIPE, text=True, env=self.environment)
        line = follower.stdout.readline()
        self.assertEqual(line, "collective timeout 300\n")
        self.assertEqual(self.ctl("stop").returncode, 0)
        with follower.stdout:
            rest = follower.stdout.read()
        self.assertEqual(follower.wait(LIMIT), 0)
        self.wait_until(self.submit(), "completed")
        after = self.ctl("logs", job, "--rank", 1)
        self.assertEqual(after.stdout, line + rest)
        self.assertRegex(after.stdout, "world size 2")
        log = self.folder / "logs/pfc/logs" / job / "rank-1.log"
        self.assertEqual(log.read_text(), after.stdout)
        last = after.stdout.splitlines(keepends=True)[-1]
        self.assertEqual(self.ctl("logs", job, "--rank", 1, "--tail", 1).stdout, last)
        log.write_text("")
        quiet = self.ctl("logs", job, "--rank", 1)
        self.assertEqual((quiet.stdout, quiet.stderr), ("", "pfcctl: rank 1 has written nothing\n"))
        self.assert_one_line(self.ctl("logs", job, "--rank", 2), "rank 2", code=2)

    def test_unwritable_logs_do_not_end_the_job(self):
        (self.folder / "logs").write_text("a file where a folder is needed")
        self.service()
        job = self.submit()
        self.wait_until(job, "completed")
        warnings = [line for line in self.said("service").splitlines() if "pfc-agent: warning" in line]
        self.assertEqual(len(warnings), 1, warnings)
        self.assertIn("--log-dir", warnings[0])


class StateFolder(ServiceTest):
    def test_a_removed_state_folder_is_recreated_for_pfcctl_and_the_next_coordinator(self):
        service = self.service()
        job = self.submit("until_stop")
        self.wait_for_training()
        folder = self.folder / "service"
        folder.rename(self.folder / "removed")
        shutil.rmtree(self.folder / "removed")
        self.wait_for("the folder", lambda: self.ctl("status").returncode == 0)
        self.wait_for("the journal", lambda: list((folder / "journals").glob("*.journal")))
        self.assertEqual(stat.S_IMODE(folder.stat().st_mode), 0o700)
        self.kills(service)
        self.service()
        self.assertIn("taking over", self.said("service"))
        self.assertEqual(self.ctl("stop").returncode, 0)
        self.wait_until(job, "stopped")


class Agents(ServiceTest):
    """Agents of a remote host: the address is this machine's, but the coordinator does not recognise it."""

    def agent(self, name="agent", *more, **environment):
        return self.starts(name, FAKE / "pfc-agent", "--join-file", self.folder / "join", "--host", "remote",
                           "--state-dir", self.folder / name, *more, XDG_STATE_HOME=str(self.folder / name / "logs"),
                           **environment)

    def elsewhere(self, name="service", port=0, hosts="remote:1"):
        """Starts a service that starts no agent. All use one --state-dir, and so the same authority."""
        process = self.starts(name, FAKE / "pfc-coordinator", "--hosts", hosts, "--port", port, "--http-port", 0,
                              "--state-dir", self.folder / "service", "--join-file", self.folder / "join")
        self.wait_for("an address", lambda: "listening on" in self.said(name))
        return process, re.search(r"listening on \S+:(\d+) and", self.said(name))[1]

    def test_staying_agents_outlive_the_coordinator_and_serve_the_next_one(self):
        service, port = self.elsewhere()
        agent = self.agent("agent", "--coordinator-grace", "1s")
        first = self.submit("saves")
        self.wait_for_training()
        self.kills(service)
        self.wait_for("a checkpoint", lambda: (self.folder / "saved-0").exists())
        self.wait_for("the worker's end",
                      lambda: {self.name_of(pid) for pid in self.processes()} <= {"pfc-agent", "pfc-agent-guard"})
        self.wait_for("a warning", lambda: "cannot be reached" in self.said("agent"))
        self.assertIsNone(agent.poll())
        again, _ = self.elsewhere("again", port)  # another --port, so it takes over no job
        for _ in range(2):
            self.wait_until(self.submit(), "completed")
        self.assertNotIn(first, self.jobs())
        self.ends(again)
        self.assertIn("the agent of host remote waits for the next job", self.said("again").splitlines()[-1])
        self.assertIsNone(agent.poll())
        self.assertEqual(self.said("agent").count("cannot be reached"), 1, self.said("agent"))
        self.ends(agent)

    def test_agents_with_a_wrong_clock_end_with_an_error(self):
        self.elsewhere()
        for name, by, problem in (("late", "-2d", "is not valid yet"), ("ahead", "+4000d", "has expired")):
            agent = self.agent(name, **fake_time.shifted(by))
            self.assertEqual(agent.wait(LIMIT), 2, self.said(name))
            self.assertRegex(self.said(name), r"^pfc-agent: error: coordinator \S+:\d+: its certificate " + problem +
                             r"; this host's clock says 2\d\d\d-.* UTC; set the clock.*\n$")

    def test_agents_with_once_end_with_the_job(self):
        self.elsewhere()
        agent = self.agent("agent", "--once")
        self.wait_until(self.submit(), "completed")
        self.assertEqual(agent.wait(LIMIT), 0, self.said("agent"))
        waiting = self.submit()
        self.wait_for("the reason", lambda: "remote" in self.queue()["reason"])
        again = self.starts("again", *agent.args, XDG_STATE_HOME=str(self.folder / "agent/logs"))
        self.wait_until(waiting, "completed")
        self.assertEqual(again.wait(LIMIT), 0, self.said("again"))

    def test_staying_agents_retry_when_they_are_refused(self):
        """Simulates a mistake in the coordinator's --hosts that is fixed later."""
        service, port = self.elsewhere()
        agent = self.agent()
        self.wait_until(self.submit(), "completed")
        self.ends(service)
        mistaken, _ = self.elsewhere("mistaken", port, "other:1")
        self.wait_for("a refusal", lambda: "refuses this agent" in self.said("agent"))
        self.assertIn("is not in the coordinator's --hosts", self.said("agent"))
        self.ends(mistaken)
        self.elsewhere("mended", port)
        self.wait_until(self.submit(), "completed")
        self.assertIsNone(agent.poll())

    def test_killed_agents_leave_no_processes_of_their_workers(self):
        self.service()
        self.submit("has_child")
        children = lambda: [pid for pid in self.processes() if self.name_of(pid) == "sleep"]
        self.wait_for("the workers' children", lambda: len(children()) == 2)
        os.kill(next(pid for pid in self.processes() if self.name_of(pid) == "pfc-agent"), signal.SIGKILL)
        self.wait_for("their end", lambda: not children())


class TwoCoordinators(ServiceTest):
    def test_two_coordinators_on_one_host_do_not_interfere(self):
        ids = {}
        for name in ("a", "b"):
            self.service(name)
            ids[name] = [self.submit("until_stop", name=name), self.submit(name=name)]
        for name in ("a", "b"):
            self.wait_for_training(name)
        self.assertEqual(set(self.jobs("a")), set(ids["a"]))
        self.assertEqual(set(self.jobs("b")), set(ids["b"]))
        self.assertEqual(self.ctl("stop", name="a").returncode, 0)
        self.wait_until(ids["a"][1], "completed", name="a")
        self.assertEqual(self.state_of(ids["b"][0], "b"), "running")
        self.started[0].kill()
        self.started[0].wait()
        self.assertEqual(self.ctl("stop", name="b").returncode, 0)
        self.wait_until(ids["b"][1], "completed", name="b")
        self.assertEqual(self.state_of(ids["b"][0], "b"), "stopped")


class RealJobs(ServiceTest):
    def test_jobs_find_files_relative_to_the_folder_of_the_submit(self):
        self.service(programs=BIN)
        job = self.job(rec=os.path.relpath(self.data, self.folder), output="here/out", num_epoch=1)
        for steps in (2, 3):  # the second resumes where the first ended
            done = self.ctl("submit", job.name, "--set", f"max_steps={steps}", "--set", f"resume={steps > 2}".lower(),
                            cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.wait_until(done.stdout.strip(), "completed", "failed")
            self.assertEqual(self.state_of(done.stdout.strip()), "completed", self.queue())
        self.assertEqual(max(line["step"] for line in self.metrics(self.folder / "here/out")), 3)


if __name__ == "__main__":
    unittest.main()
