"""A real Prometheus and Alertmanager for tests, on free ports of this machine."""

import http.server
import json
import pathlib
import random
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "prometheus"
PROGRAMS = ("prometheus", "prometheus-alertmanager", "promtool", "amtool")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]


def free_port():
    """Returns a port that outgoing connections will not use before a program listens on it."""
    while True:
        port = random.randrange(20_000, 32_000)  # below the range that Linux uses for outgoing connections
        with socket.socket() as found:
            try:
                found.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def minutes_as_seconds(rules):
    """Returns the same rules for a clock that runs 60 times as fast: 15m becomes 15s, 2 * 3600 becomes 2 * 60."""
    faster = re.sub(r"\b(\d+)m\b", r"\1s", rules)
    faster = re.sub(r"\b(\d+)h\b", r"\1m", faster)
    return faster.replace("3600", "60")


class Receiver:
    """Receives Alertmanager's messages: .alerts is {name: last message}."""

    def __init__(self):
        self.alerts = {}
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                for alert in sent["alerts"]:
                    receiver.alerts[alert["labels"]["alertname"], alert["status"]] = alert
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Watch:
    """Prometheus with the files of deploy/prometheus (other addresses and times), Alertmanager, and a receiver of its
    messages. `coordinator`: host:port of its pages."""

    def __init__(self, folder, coordinator, environment):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self.receiver = Receiver()
        self.port, alerts_port = free_port(), free_port()
        config = (DEPLOY / "prometheus.yml").read_text()
        config = config.replace("127.0.0.1:7451", coordinator).replace("127.0.0.1:9093", f"127.0.0.1:{alerts_port}")
        config = re.sub(r"_interval: 15s", "_interval: 1s", config)
        self.write("prometheus.yml", config)
        self.write("recording-rules.yml", (DEPLOY / "recording-rules.yml").read_text())
        self.write("alerts.yml", minutes_as_seconds((DEPLOY / "alerts.yml").read_text()))
        sent = (DEPLOY / "alertmanager.yml").read_text().replace("http://127.0.0.1:9999", f"http://127.0.0.1:{self.receiver.port}")
        self.write("alertmanager.yml", minutes_as_seconds(sent.replace("30s", "1s")))
        self.processes = [
            self.start(environment, "prometheus", f"--config.file={self.folder}/prometheus.yml",
                       f"--storage.tsdb.path={self.folder}/data", f"--web.listen-address=127.0.0.1:{self.port}"),
            self.start(environment, "prometheus-alertmanager", f"--config.file={self.folder}/alertmanager.yml",
                       f"--storage.path={self.folder}/alerts", f"--web.listen-address=127.0.0.1:{alerts_port}",
                       "--cluster.listen-address=")]

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def start(self, environment, program, *options):
        with (self.folder / f"{program}.log").open("w") as log:
            return subprocess.Popen([program, *options], stdout=log, stderr=log, env=environment)

    def close(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(timeout=60)
        self.receiver.close()

    def logs(self):
        return "\n".join(path.read_text()[-3000:] for path in self.folder.glob("*.log"))

    def get(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as reply:
            return json.load(reply)["data"]

    def query(self, expression):
        """Returns the current [(labels, value)]."""
        return [(each["metric"], float(each["value"][1])) for each in self.get("/api/v1/query", query=expression)["result"]]

    def wait_for(self, what, found, seconds=120):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if value := found():
                    return value
            except OSError:  # it has just been started
                pass
            time.sleep(0.2)
        raise AssertionError(f"{what} did not come within {seconds} s\n{self.logs()}")
