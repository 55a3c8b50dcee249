"""The page at / in a real browser, with real jobs. With PFC_SCREENSHOTS=FOLDER also takes the documents' pictures
(docs/page.md)."""

import json
import os
import pathlib
import re
import signal
import ssl
import unittest
import urllib.error
import urllib.request

import browser
from browser import Browser
from support import BIN, LIMIT, JobTest


@unittest.skipUnless(browser.is_here(), "needs Chromium: scripts/setup.sh browser")
class PageTest(JobTest):
    """All tests of this file share one browser."""

    browser = None

    def setUp(self):
        super().setUp()
        self.process = None
        if PageTest.browser is None:
            PageTest.browser = Browser(os.environ, LIMIT)
            unittest.addModuleCleanup(PageTest.browser.close)
        self.browser.reset()

    def tearDown(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
        if self.process:
            self.process.communicate(timeout=LIMIT)
        super().tearDown()

    def begin(self, *words):
        """Starts a coordinator; returns the address of its page."""
        self.process = self.background(*words)
        line = self.read_until(self.process, "listening on")[-1]
        address = re.search(r"https?://[\d.:]+", line)[0]
        return address if address.startswith("https") else f"{address}/?token={self.page_token()}"

    def opened(self, workers=2, *more, **keys):
        self.browser.open(self.begin(*self.coordinator(workers, self.job(**{"num_epoch": 10_000, **keys}), *more)))
        self.browser.wait("a first step", lambda: self.steps() > 0)

    def steps(self):
        return int(self.browser.text("#figures dd .value").replace(",", "") or 0)

    def tones(self):
        return self.browser.script("return [...document.querySelectorAll('.slot')].map((e) => e.dataset.tone)")

    def assert_no_complaints(self):
        self.assertEqual(self.browser.complaints(), [])


class PageOfAJob(PageTest):
    def test_the_page_shows_a_running_job_and_stops_it(self):
        self.opened(2, "--max-restarts", 1)
        # The tile of a failed worker stays red for 15 s. Other checks run in this time.
        for check in (self.check_curves_move, self.check_what_the_job_is_and_where_its_time_goes,
                      self.check_a_killed_worker_turns_red_and_an_event_names_it,
                      self.check_each_picture_has_a_table, self.check_the_log_of_another_rank_is_text,
                      self.check_a_screen_reader_finds_its_way,
                      self.check_texts_are_legible_in_light_and_dark_wide_and_narrow,
                      self.check_the_keyboard_is_enough, self.check_the_next_generation_is_shown_as_good,
                      self.check_it_goes_on_after_the_coordinator_was_stopped_for_a_moment,
                      self.check_the_stop_button_stops_the_job_once_it_is_confirmed):
            with self.subTest(check.__name__):
                check()

    def check_curves_move(self):
        points = "return document.querySelector('#loss-chart canvas') ? 1 : 0"
        self.browser.wait("a curve", lambda: self.browser.script(points))
        first = self.browser.script("return document.querySelector('#loss-chart canvas').toDataURL()")
        step = self.steps()
        self.browser.wait("another step", lambda: self.steps() > step + 3)
        self.assertNotEqual(self.browser.script("return document.querySelector('#loss-chart canvas').toDataURL()"), first)
        self.assertEqual(self.browser.text("#state"), "training")
        self.assertEqual(self.browser.text("#link"), "live")
        self.assertRegex(self.browser.text("#speed-reading"), r"^[\d.,]+ images/s$")
        self.assert_no_complaints()

    def check_what_the_job_is_and_where_its_time_goes(self):
        self.assertEqual(self.tones(), ["good", "good"])
        self.assertIn("MiB", self.browser.text(".slot-memory"))
        self.assertIn("8 classes", self.browser.text("#notes"))
        self.assertIn("mbf", self.browser.text("#plan"))
        self.browser.wait("the phases of both ranks", lambda: len(self.browser.texts("#phases .bar")) == 2)
        self.assertIn("backward", self.browser.texts("#phases-legend li"))
        self.browser.wait("the log", lambda: "Global Step" in self.browser.text("#log"))
        self.assertTrue(any("has joined" in text for text in self.browser.texts(".event-text")))

    def check_each_picture_has_a_table(self):
        for name, words in (("loss-table", "Mean"), ("speed-table", "Mean"), ("workers-table", "Process"),
                            ("phases-table", "backward"), ("all-keys", "embedding_size")):
            self.browser.script("document.getElementById(arguments[0]).open = true", name)
            self.browser.wait(name, lambda: words in self.browser.text(f"#{name} table"))
        self.assert_no_complaints()

    def check_a_killed_worker_turns_red_and_an_event_names_it(self):
        os.kill(self.workers()[1], signal.SIGKILL)
        self.browser.wait("a red tile", lambda: "bad" in self.tones())
        failure = self.browser.wait("an event of the failure", lambda: self.browser.texts(
            ".event[data-severity=error] .event-text"))
        self.assertIn("rank 1", failure[-1])
        self.assertIn("SIGKILL", failure[-1])
        self.assertNotEqual(self.tones()[0], "bad")

    def check_the_next_generation_is_shown_as_good(self):
        self.browser.wait("the next generation", lambda: self.tones() == ["good", "good"])
        self.assertEqual(self.browser.texts("#figures dd .value")[-1], "1")
        self.assert_no_complaints()

    def check_the_log_of_another_rank_is_text(self):
        self.browser.script("""
            const input = document.getElementById("log-rank");
            input.value = 1;
            input.dispatchEvent(new Event("change"));""")
        self.browser.wait("the log of rank 1", lambda: "rank 1" in self.browser.text("#log").lower()
                          or "written nothing" in self.browser.text("#log"))

    def check_the_stop_button_stops_the_job_once_it_is_confirmed(self):
        self.browser.script("document.getElementById('stop').click()")
        self.assertTrue(self.browser.is_shown("#dialog"))
        self.browser.script("document.getElementById('dialog-no').click()")
        self.assertFalse(self.browser.is_shown("#dialog"))
        self.assertIsNone(self.process.poll())
        self.browser.script("document.getElementById('stop').click()")
        self.browser.script("document.getElementById('dialog-yes').click()")
        output, _ = self.process.communicate(timeout=LIMIT)
        self.assertIn("job stopped by the page at /", output.splitlines()[-1])
        self.assertEqual(len(list((self.folder / "out").glob("step-*/manifest.json"))), 1)
        self.browser.wait("the end on the page", lambda: self.browser.text("#state") == "stopped")
        self.browser.wait("the end of the link", lambda: "has ended" in self.browser.text("#link"))
        self.assertFalse(self.browser.is_shown("#stop"))

    def check_the_keyboard_is_enough(self):
        self.browser.wait("the button", lambda: self.browser.is_shown("#stop"))
        self.browser.tab_to("stop")
        outline = self.browser.script("return getComputedStyle(document.activeElement).outlineStyle")
        self.assertEqual(outline, "solid")
        self.browser.press(browser.Keys.ENTER)
        self.browser.wait("the dialog", lambda: self.browser.is_shown("#dialog"))
        self.assertEqual(self.browser.focused(), "dialog-no")  # the harmless answer
        self.browser.press(browser.Keys.ESCAPE)
        self.browser.wait("its end", lambda: not self.browser.is_shown("#dialog"))
        self.assertEqual(self.browser.focused(), "stop")

    def check_a_screen_reader_finds_its_way(self):
        tree = self.browser.command("Accessibility.getFullAXTree")["nodes"]
        roles = [node["role"]["value"] for node in tree if "role" in node and not node.get("ignored")]
        for role in ("banner", "main", "contentinfo", "heading", "progressbar", "region", "status"):
            self.assertIn(role, roles)
        nameless = [node for node in tree if not node.get("ignored") and node["role"]["value"] in
                    ("button", "link", "spinbutton", "checkbox", "progressbar", "region", "img")
                    and not node.get("name", {}).get("value")]
        self.assertEqual(nameless, [])

    def check_texts_are_legible_in_light_and_dark_wide_and_narrow(self):
        self.browser.assert_legible(self)
        self.browser.plain()
        self.assert_no_complaints()

    def check_it_goes_on_after_the_coordinator_was_stopped_for_a_moment(self):
        self.process.send_signal(signal.SIGSTOP)
        self.process.send_signal(signal.SIGCONT)
        step = self.steps()
        self.browser.wait("another step", lambda: self.steps() > step)


class PageOfAService(PageTest):
    def submit(self, name, **keys):
        self.succeeded(self.pfcctl("submit", self.job(**keys, output=str(self.folder / name)), "--name", f"the {name} one"))

    def test_each_job_has_its_name_its_output_and_its_log(self):
        self.browser.open(self.begin(BIN / "pfc-coordinator", "--hosts", "localhost:1", "--port", 0, "--http-port", 0,
                                     "--state-dir", self.folder / "state"))
        self.submit("first", max_steps=7, num_epoch=10_000)
        self.browser.wait("the first job's end", lambda: "Global Step: 7 " in self.browser.text("#log"))
        self.submit("second", max_steps=3, num_epoch=10_000)
        self.browser.wait("the second job's log", lambda: "3 steps, 0 of" in self.browser.text("#log"))
        self.assertNotIn("7 steps, 0 of", self.browser.text("#log"))
        self.browser.wait("both rows", lambda: "the second one" in self.browser.text("#queue"))
        for name in ("first", "second"):
            self.assertIn(f"the {name} one", self.browser.text("#queue"))
            self.assertIn(str(self.folder / name), self.browser.text("#queue"))
        self.submit("third", num_epoch=10_000)
        self.browser.wait("the third job", lambda: self.browser.text("#job").startswith("the third one · "))
        self.assert_no_complaints()


class PageOfTwoHosts(PageTest):
    """Uses TLS, because one host is another machine (which never joins)."""

    def setUp(self):
        super().setUp()
        self.address = self.begin(BIN / "pfc-coordinator", "--hosts", "localhost:1,192.0.2.1:1", "--config",
                                  self.job(num_epoch=10_000), "--port", 0, "--http-port", 0, "--start-timeout", "600s",
                                  "--address", "127.0.0.1", "--state-dir", self.folder / "state")
        self.port = int(self.address.rsplit(":", 1)[1])

    def test_a_reader_sees_no_buttons_and_an_admin_can_stop_the_job(self):
        for check in (self.check_a_reader_sees_everything_but_buttons_and_logs,
                      self.check_a_stop_needs_the_admins_token_and_comes_from_no_other_site,
                      self.check_an_admin_can_stop_the_job):
            with self.subTest(check.__name__):
                self.browser.reset()
                check()

    def open_as(self, name):
        self.browser.show_token(self.page_token(name))
        self.browser.open(f"https://127.0.0.1:{self.port}/")
        self.browser.wait("its state", lambda: self.browser.text("#state") == "waiting")

    def check_a_reader_sees_everything_but_buttons_and_logs(self):
        self.open_as("reader")
        self.browser.wait("both hosts", lambda: self.browser.texts(".host h3") == ["localhost", "192.0.2.1"])
        self.browser.wait("who he is", lambda: "Only admins" in self.browser.text("#log"))
        self.assertFalse(self.browser.is_shown("#stop"))
        self.assertNotIn("Drain", self.browser.texts("button"))
        self.assert_no_complaints()

    def check_an_admin_can_stop_the_job(self):
        self.open_as("admin")
        self.browser.wait("the button", lambda: self.browser.is_shown("#stop"))
        self.assertEqual(self.browser.texts(".host button"), ["Drain", "Drain"])
        self.browser.script("document.getElementById('stop').click()")
        self.browser.script("document.getElementById('dialog-yes').click()")
        self.process.communicate(timeout=LIMIT)
        audit = (self.folder / "state" / "audit.jsonl").read_text()
        lines = [json.loads(line) for line in audit.splitlines()]
        stops = [(line["role"], line["result"]) for line in lines if line["what"] == "stop"]
        self.assertEqual(stops[-1], ("admin", "ok"))

    def ask(self, token, **headers):
        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}/api/stop", data=b'{"job":"x"}', method="POST",
                                         headers={"Authorization": f"Bearer {token}", **headers})
        try:
            with urllib.request.urlopen(request, context=unchecked, timeout=LIMIT) as reply:
                return reply.status
        except urllib.error.HTTPError as error:
            return error.code

    def check_a_stop_needs_the_admins_token_and_comes_from_no_other_site(self):
        own = {"Content-Type": "application/json", "X-Pfc-Request": "1"}
        self.assertEqual(self.ask(self.page_token("reader"), **own), 403)
        self.assertEqual(self.ask("0" * 32, **own), 401)
        self.assertEqual(self.ask(self.page_token("admin"), Origin="https://evil.example", **own), 403)
        self.assertEqual(self.ask(self.page_token("admin"), **{**own, "Content-Type": "text/plain"}), 403)
        self.assertEqual(self.ask(self.page_token("admin"), **own), 409)  # another job's id
        self.assertIsNone(self.process.poll())


@unittest.skipUnless("PFC_SCREENSHOTS" in os.environ, "takes pictures only where PFC_SCREENSHOTS says where to")
class Pictures(PageTest):
    SIZE = 112

    def test_takes_the_pictures_of_the_documents(self):
        folder = pathlib.Path(os.environ["PFC_SCREENSHOTS"])
        self.opened(2, "--max-restarts", 3, save_every_steps=30, num_epoch=16)
        self.browser.wait("some steps", lambda: self.steps() > 40)
        os.kill(self.workers()[1], signal.SIGKILL)
        step = self.steps()
        self.browser.wait("the next generation", lambda: self.steps() > step + 30)
        for name, scheme, width, height in (("page-light", "light", 1360, 1250), ("page-dark", "dark", 1360, 1250),
                                            ("page-phone", "light", 390, 844)):
            self.browser.prefer(scheme, "reduce")
            self.browser.size(width, height, mobile=width < 500)
            shown = self.steps()
            self.browser.wait("a few steps more", lambda: self.steps() > shown + 4)
            self.browser.screenshot(folder / f"{name}.png")


if __name__ == "__main__":
    unittest.main()
