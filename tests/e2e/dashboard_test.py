"""A real Prometheus answers each query of deploy/grafana's dashboard: for a real job with a killed worker, and for the
page of a job with 1,024 workers on GPUs, followed by another job."""

import math
import os
import re
import signal
import unittest

from grafana import ALL, Grafana
from metrics_page import NOT_OF_THE_SMALL_JOB, MetricsPage
from prometheus import MISSING, Watch
from support import LIMIT, JobTest

WORKERS = 1024
SCRAPE_LARGE = 5  # seconds between scrapes of the large job's page, which has 3.5 MB
MOST_SERIES = 20  # most series that are readable in one panel


class WatchOfTwo(Watch):
    """Prometheus also scrapes a second page, `address`."""

    def __init__(self, address, *more):
        self.address = address
        super().__init__(*more)

    def write(self, name, text):
        if name == "prometheus.yml":
            text = text.replace("evaluation_interval: 1s", "evaluation_interval: 2s")
            text += (f"\n  - job_name: large\n    scrape_interval: {SCRAPE_LARGE}s\n"
                     f'    static_configs:\n      - targets: ["{self.address}"]\n')
        super().write(name, text)


def has_data(series):
    return any(math.isfinite(value) for each in series for _, value in each["values"])


def labels_of(legend):
    return set(re.findall(r"{{(\w+)}}", legend))


@unittest.skipIf(MISSING, f"not run: {', '.join(MISSING)} not installed (scripts/setup.sh watch)")
class DashboardTest(JobTest):
    def setUp(self):
        super().setUp()
        self.process = self.start(2, self.job(num_epoch=100000, save_every_steps=2), "--max-restarts", 1)
        port = self.http_port(self.read_until(self.process, "Global Step: 2"))
        self.large = MetricsPage(self.page_with_a_checkpoint(port), WORKERS)
        small = f"127.0.0.1:{port}"
        self.watch = WatchOfTwo(self.large.address, self.folder / "watch", small, self.environment)
        self.of_small = Grafana(self.watch, {"instance": small, "run": ALL})
        self.of_large = Grafana(self.watch, {"instance": self.large.address, "run": ALL}, scrape_s=SCRAPE_LARGE)

    def tearDown(self):
        self.watch.close()
        self.large.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=LIMIT)
        self.wait_until_all_have_ended()
        super().tearDown()

    def page_with_a_checkpoint(self, port):
        def with_a_checkpoint():
            page = self.page(port, "/metrics")
            return "\npfc_job_last_checkpoint_size_bytes" in page and page
        return self.wait_for("a checkpoint", with_a_checkpoint, pause=0.2)

    def wait_for_all(self, questions, found, seconds=120):
        """Repeats each query until `found` is true for its result."""
        left = list(questions)

        def none_is_left():
            left[:] = [each for each in left if not found(*each)]
            return not left
        try:
            self.watch.wait_for("an answer", none_is_left, seconds)
        except AssertionError as error:
            self.fail(f"no answer within {seconds} s: {[each[0] for each in left]}\n{error}")

    def test_each_query_is_answered(self):
        self.watch.wait_for("a first reading", lambda: self.watch.query("pfc_job_workers == 2"))
        os.kill(self.workers()[1], signal.SIGKILL)
        self.wait_for_all([(name,) for name in ("Failures", "Alerts", "Jobs begin", "Checkpoints")],
                          lambda name: self.of_small.events(name))
        self.assertEqual({title for _, _, title in self.of_small.events("Failures")}, {"restart: crash"})
        self.assertIn("PfcRestarts", {title for _, _, title in self.of_small.events("Alerts")})
        of_small = [each for each in self.of_small.targets() if not re.search("|".join(NOT_OF_THE_SMALL_JOB), each[2]["expr"])]
        self.assertGreater(len(of_small), 60)
        self.wait_for_all(of_small, lambda _, panel, target: has_data(self.of_small.answer(panel, target)))
        for what, panel, target in of_small:
            for each in self.of_small.answer(panel, target):
                self.assertLessEqual(labels_of(target["legendFormat"]), set(each["labels"]), what)
        self.process.send_signal(signal.SIGTERM)  # a scrape sees the stop, but not the restart, which was short
        self.watch.wait_for("the end", lambda: "stopped" in {title for _, _, title in self.of_small.events("States")})
        self.look_at_the_large_job()  # last, because then no job needs the processor

    def look_at_the_large_job(self):
        self.wait_for_all(((name,) for name in ("Hosts lost", "Jobs begin")), lambda name: self.of_large.events(name))
        self.assertEqual({title for _, _, title in self.of_large.events("Hosts lost")}, {"host h0 lost"})
        without_alerts = [each for each in self.of_large.targets() if "ALERTS" not in each[2]["expr"]]
        self.wait_for_all(without_alerts, lambda _, panel, target: has_data(self.of_large.answer(panel, target)))
        for what, panel, target in without_alerts:
            self.assertLessEqual(len(self.of_large.answer(panel, target)), MOST_SERIES, what)
        by_worker = {what: {int(each["labels"].get("rank", -1)) for each in self.of_large.answer(panel, target)}
                     for what, panel, target in without_alerts}
        self.assertEqual(by_worker["Host memory by worker A"], set(range(WORKERS - 8, WORKERS)), "not the workers with the most memory")
        self.assertEqual(by_worker["Processor time by worker A"], set(range(8)), "not the workers with the least time")
        self.look_at_one_job_of_two()

    def look_at_one_job_of_two(self):
        self.assertEqual(self.of_large.values_of("run"), ["first", "second"])
        self.assertIn(self.large.address, self.of_large.values_of("instance"))
        [loss] = [each for each in self.of_large.targets() if each[0] == "Loss A"]
        begins = {title: begin for begin, _, title in self.of_large.events("Jobs begin")}
        change = begins["job second begins"]
        self.assertAlmostEqual(change, self.large.second_begun, delta=0.01)
        for job, is_of_it in (("first", lambda at: at <= change + SCRAPE_LARGE), ("second", lambda at: at >= change)):
            one = Grafana(self.watch, {**self.of_large.chosen, "run": job}, scrape_s=SCRAPE_LARGE)
            [series] = one.answer(*loss[1:])
            self.assertTrue(all(is_of_it(at) for at, _ in series["values"]), (job, change, series))


if __name__ == "__main__":
    unittest.main()
