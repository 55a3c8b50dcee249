"""Serves the metrics page of a large job on GPUs, derived from the page of a small job on CPUs."""

import http.server
import re
import threading
import time

SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
GPU = {"memory_used_bytes": 70e9, "memory_total_bytes": 80e9, "utilization_ratio": 0.9, "temperature_celsius": 70,
       "power_watts": 600, "throttled": 0}
# Series that exist only with fp16, a teacher, TLS or a service.
ELSEWHERE = {"pfc_job_loss_scale": ("", 1024), "pfc_job_distillation_loss": ("", 0.3), "pfc_job_logits_loss": ("", 1.2),
             "pfc_jobs_total": ('how="completed"', 3),
             "pfc_coordinator_refusals_total": ('reason="token"', 2), "pfc_coordinator_audit_lines_left_out_total": ("", 0)}
NOT_OF_THE_SMALL_JOB = [*ELSEWHERE, *(f"pfc_worker_gpu_{name}" for name in GPU), "worker:pfc_gpu_memory_used:ratio"]
HOST_SIZE = 8  # workers per host
CHANGE = 3  # scrapes of the first job before the second one starts


def series_of_many(page, workers):
    """Yields (name, labels, value): copies rank 0 of `page` to all workers and its host to all hosts. Values grow
    with the rank by up to a tenth, except timestamps and values of 0 or 1."""
    for name, labels, value in SAMPLE.findall(page):
        if "host=" not in labels:
            yield name, labels, float(workers if name in ("pfc_job_workers", "pfc_job_workers_wanted") else value)
            continue
        if "rank=" in labels and 'rank="0"' not in labels:
            continue
        for rank in range(0, workers, 1 if "rank=" in labels else HOST_SIZE):
            own = re.sub(r'host="[^"]*"', f'host="h{rank // HOST_SIZE}"', labels).replace('rank="0"', f'rank="{rank}"')
            yield name, own, float(value) * (1 if "timestamp" in name or value in "01" else 1 + rank / workers / 10)
    for rank in range(workers):
        for name, value in GPU.items():
            yield f"pfc_worker_gpu_{name}", f'host="h{rank // HOST_SIZE}",rank="{rank}",device="cuda:{rank % HOST_SIZE}"', value
    for name, (labels, value) in ELSEWHERE.items():
        yield name, labels, value


class MetricsPage:
    """A page with growing counters. After some scrapes a second job starts and its host h0 is lost."""

    def __init__(self, page, workers):
        series = [each for each in series_of_many(page, workers) if each[0] not in ("pfc_job_info", "pfc_job_start_timestamp_seconds")]
        grows = re.compile(r"_(total|sum|count|bucket)$")
        self.fixed = "".join(f"{name}{{{labels}}} {value}\n" for name, labels, value in series
                             if not grows.search(name) and (name, labels) != ("pfc_host_up", 'host="h0"'))
        self.counters = [(f"{name}{{{labels}}} ", value) for name, labels, value in series if grows.search(name)]
        self.readings, self.begun, self.second_begun = 0, time.time(), None
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                try:
                    self.wfile.write(owner.text().encode())
                    owner.readings += 1
                except BrokenPipeError:  # Prometheus did not read all of it in time
                    pass

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def text(self):
        now = time.time()
        if self.readings >= CHANGE and self.second_begun is None:
            self.second_begun = now
        job, begun = ("first", self.begun) if self.second_begun is None else ("second", self.second_begun)
        growth = 1 + (now - self.begun) / 10
        changing = (f'pfc_job_info{{job_id="{job}"}} 1\npfc_job_start_timestamp_seconds {begun}\n'
                    f'pfc_host_up{{host="h0"}} {int(job == "first")}\n')
        return changing + self.fixed + "".join([f"{name}{value * growth}\n" for name, value in self.counters])

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
