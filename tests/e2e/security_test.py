"""Tests that a coordinator of two hosts rejects, counts and audits callers without rights or with too few."""

import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

from hosts import HostsTest
from network import address, may_make_namespaces
from support import BIN, LIMIT, JobTest, run

COORDINATOR = f"{address(1)}:7450"

# Reads a page over TLS, like a program on another host: AUTHORITY TOKEN PATH.
PAGE = """
import socket, ssl, sys
authority, token, path = sys.argv[1:]
tls = ssl.create_default_context(cafile=authority)
stream = tls.wrap_socket(socket.create_connection((%r, 7451), 10), server_hostname="pfc-coordinator")
header = f"Authorization: Bearer {token}\\r\\n" if token else ""
stream.sendall(f"GET {path} HTTP/1.1\\r\\nHost: x\\r\\n{header}Connection: close\\r\\n\\r\\n".encode())
answer = b""
while piece := stream.recv(65536):
    answer += piece
print(answer.decode())
""" % address(1)

IN_PLAINTEXT = """
import socket
stream = socket.create_connection((%r, 7450), 10)
stream.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n")
stream.recv(100)
""" % address(1)


@unittest.skipUnless(may_make_namespaces(), "needs root, to make network namespaces")
class Security(HostsTest):
    HOSTS = "ab"

    def setUp(self):
        super().setUp()
        self.state = self.folder / "state"
        self.agents.append(self.starts_coordinator("--hosts", "host-a:1,host-b:1", "--config",
                                                   self.job(num_epoch=100_000, save_every_steps=0), "--start-timeout", "120s"))
        self.join = self.join_strings(self.agents[0], ["host-b"])["host-b"]

    def tearDown(self):
        try:
            for process in self.agents:
                process.kill()
                process.wait()
            self.wait_until_all_have_ended()
        finally:
            super().tearDown()
    def pfcctl(self, *words, where="a"):
        return run(*self.network.within(where, BIN / "pfcctl", *words), env=self.environment)

    def admin(self, *words):
        return self.succeeded(self.pfcctl(*words, "--state-dir", self.state)).stdout.strip()

    def agent(self, join, folder):
        """Starts an agent of host b with its own key in `folder`."""
        return subprocess.Popen(
            self.network.within("b", BIN / "pfc-agent", "--host", "host-b", "--patience", "20s", "--state-dir",
                                self.folder / folder),
            env={**self.environment, "PFC_JOIN": join}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def refuses(self, join, words):
        agent = self.agent(join, "stranger")
        _, errors = agent.communicate(timeout=LIMIT)
        self.assertEqual(agent.returncode, 2, errors)
        self.assertIn(words, errors.strip().splitlines()[-1])

    def page(self, path, token=""):
        pem = (self.state / "security" / "authority.pem").read_text()
        authority = self.folder / "authority.pem"
        authority.write_text(pem[pem.index("-----BEGIN CERTIFICATE"):])
        return self.succeeded(run(*self.network.within("b", sys.executable, "-c", PAGE, authority, token, path))).stdout

    def wait_for_training(self):
        while json.loads(self.admin("status", "--json"))["state"] != "training":
            self.assertIsNone(self.agents[0].poll())

    def test_unauthenticated_callers_are_refused_counted_and_written_to_the_audit_log(self):
        token = self.join.split("@")[0]
        self.refuses(self.join.replace(token, "0" * 32), "the token does not belong to this coordinator")
        self.refuses(self.join[:-64] + "0" * 64, "a certificate that does not match")
        short = self.admin("token", "create", "--host", "host-b", "--lifetime", "400ms")
        while "expired" not in self.admin("token", "list"):
            pass
        self.refuses(short, "has expired")
        revoked = self.admin("token", "create", "--lifetime", "1h")
        newest = self.admin("token", "list").splitlines()[-1].split()[0]
        self.admin("token", "revoke", newest)
        self.refuses(revoked, "was revoked")
        without = self.pfcctl("status", "--coordinator", COORDINATOR, "--state-dir", self.folder / "none", where="b")
        self.assertEqual(without.returncode, 2, without.stdout)
        self.assertIn("/security/admin.pem does not exist", without.stderr)
        run(*self.network.within("b", sys.executable, "-c", IN_PLAINTEXT))

        self.agents.append(self.agent(self.join, "agent"))
        self.wait_for_training()
        self.refuses(self.join, "has already used token")
        for pid in self.workers().values():
            with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as file:
                self.assertNotIn(token, file.read())
        reader = self.folder / "reader"
        reader.write_text(self.admin("token", "create", "--read-only"))
        self.assertEqual(self.pfcctl("status", "--access-file", reader, where="b").returncode, 0)
        stop = self.pfcctl("stop", "--access-file", reader, where="b")
        self.assertIn("a credential of role reader does not allow this call", stop.stderr)
        self.assertIn(" 401 ", self.page("/metrics"))
        self.assertIn(" 401 ", self.page("/status.json", token))
        metrics = self.page("/metrics", reader.read_text().split("@")[0])

        expected = {"wrong_token": 2, "expired_token": 1, "revoked_token": 1, "plaintext": 1, "replayed_token": 1,
                    "wrong_role": 1, "no_credential": 1}
        counted = dict(re.findall(r'pfc_coordinator_refusals_total\{reason="(\w+)"\} (\d+)', metrics))
        for reason, count in expected.items():
            self.assertGreaterEqual(int(counted.get(reason, 0)), count, reason)
        self.admin("stop")
        self.agents[0].communicate(timeout=LIMIT)
        audit = [json.loads(line) for line in (self.state / "audit.jsonl").read_text().splitlines()]
        self.assertLessEqual(set(expected), {line["result"] for line in audit})
        done = {(line["what"], line["role"]) for line in audit if line["result"] == "ok"}
        self.assertLessEqual({("register", "agent"), ("create_token", "admin"), ("revoke_token", "admin"),
                              ("stop", "admin"), ("exchange_token", "nobody")}, done)
        self.assertTrue(all(line["peer"] for line in audit))

    def test_an_agent_that_is_started_again_needs_no_token(self):
        self.agents.append(self.agent(self.join, "agent"))
        self.wait_for_training()
        self.admin("token", "revoke", self.admin("token", "list").splitlines()[-1].split()[0])
        self.agents[1].kill()
        self.agents[1].communicate()
        self.agents.append(self.agent(self.join, "agent"))
        output, _ = self.agents[0].communicate(timeout=LIMIT)
        self.assertIn("host host-b: another pfc-agent has taken over", output)

    def test_both_sides_report_a_link_with_a_small_mtu(self):
        self.network.narrow("b", 900)
        agent = self.agent(self.join, "agent")
        self.agents.append(agent)
        self.assertRegex(agent.stderr.readline(), "connected over TCP, but the TLS handshake timed out.* MTU")
        refused = self.read_until(self.agents[0], "an agent was refused: ")[-1]
        self.assertRegex(refused, f"{address(2)}: TCP connects, but no TLS handshake completes.* MTU")
        self.network.narrow("b", 1500)
        self.wait_for_training()
        self.admin("stop")
        self.agents[0].communicate(timeout=LIMIT)


class OneMachine(JobTest):
    """A service whose hosts are all this machine, which other users share."""

    def setUp(self):
        super().setUp()
        self.started = []

    def tearDown(self):
        for process in self.started:
            process.terminate()
            process.communicate()
        super().tearDown()

    def service(self, state, *more):
        process = self.background(BIN / "pfc-coordinator", "--hosts", "localhost:1", "--port", 0, "--http-port", 0, "--state-dir",
                                  state, *more)
        self.started.append(process)
        line = self.read_until(process, "it waits for jobs")[-1]
        return re.search(r"listening on (127\.0\.0\.1:\d+) and http://127\.0\.0\.1:(\d+) \(open it with /\?token=TOKEN, which is in (\S+)\);", line)

    def status(self, address, state):
        return run(BIN / "pfcctl", "status", "--coordinator", address, "--state-dir", state, env=self.environment)

    def attacks(self, address):
        """64 unauthenticated clients that send requests of 4 MiB cost it at most 64 MiB temporarily."""
        (pid,) = [pid for pid in self.processes() if pathlib.Path(f"/proc/{pid}/comm").read_text() == "pfc-coordinator\n"
                  and str(self.folder / "state") in pathlib.Path(f"/proc/{pid}/cmdline").read_text()]

        def kib(what):
            return int(re.search(what + r":\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1])
        before = kib("VmRSS")
        done = self.succeeded(run(sys.executable, pathlib.Path(__file__).with_name("hostile_grpc.py"), address, 64, 256))
        self.assertIn(" 0 at the end", done.stdout)
        self.assertGreater(int(re.search(r"(\d+) MiB sent", done.stdout)[1]), 16, "the attack has sent too little")
        self.assertLess(kib("VmHWM") - before, 64 << 10, done.stdout)

    def test_only_users_who_can_read_the_state_folder_are_served(self):
        state, other = self.folder / "state", self.folder / "other"
        address, port, token = self.service(state).groups()
        self.assertEqual(pathlib.Path(token), state / "security" / "admin.token")
        self.assertEqual(stat.S_IMODE(os.stat(token).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(state / "security").st_mode), 0o700)
        self.assertEqual(self.status(address, state).returncode, 0)
        none = self.status(address, self.folder / "none")
        self.assertIn("/security/admin.pem does not exist", none.stderr)
        self.service(other)  # creates the credential of another coordinator
        self.attacks(address)
        stranger = self.status(address, other)
        self.assertNotEqual(stranger.returncode, 0, stranger.stdout)

        def answer(path, **headers):
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=LIMIT) as page:
                    return page.status
            except urllib.error.HTTPError as error:
                return error.code

        for path in ("/", "/status.json", "/events", "/api/log?rank=0"):
            self.assertEqual(answer(path), 401, path)
        for path in ("/healthz", "/metrics"):
            self.assertEqual(answer(path), 200, path)
        secret = pathlib.Path(token).read_text().strip()
        self.assertEqual(answer("/status.json", Authorization=f"Bearer {secret}"), 200)
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(f"http://127.0.0.1:{port}/?token={secret}", timeout=LIMIT) as page:
            self.assertEqual((page.status, page.url), (200, f"http://127.0.0.1:{port}/"))


if __name__ == "__main__":
    unittest.main()
