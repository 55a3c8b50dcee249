"""The page of pfcctl data review in a real browser: decisions, their file, and hostile names."""

import json
import os
import unittest

import browser
from browser import Browser
from support import BIN, LIMIT, JobTest, run

HOSTILE = "</script><img src=x onerror=\"document.title='hacked'\"><!--"


@unittest.skipUnless(browser.is_here(), "needs Chromium: scripts/setup.sh browser")
class ReviewTest(JobTest):
    """All tests share one browser."""

    browser = None

    def setUp(self):
        super().setUp()
        if ReviewTest.browser is None:
            ReviewTest.browser = Browser(os.environ, LIMIT)
            unittest.addModuleCleanup(ReviewTest.browser.close)
        self.browser.reset()
        self.browser.command("Storage.clearDataForOrigin", origin="file://", storageTypes="local_storage")
        self.browser.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.folder))
        self.set = self.copy_of_data("set")
        self.names = [f"Person {i}" for i in range(self.IDENTITIES - 1)] + [HOSTILE]
        (self.set / "identities.txt").write_text("\n".join(self.names) + "\n")
        self.offsets = dict(line.split("\t") for line in (self.set / "train.idx").read_text().splitlines())

    def image(self, row, **more):
        return {"row": row, "name": f"{self.folder.name}/train.rec: record {row + 1} (offset {self.offsets[str(row + 1)]})", **more}

    def identity(self, label, **more):
        return {"label": label, "name": self.names[label], **more}

    def findings(self):
        """Returns one finding of each kind."""
        first, second, last = self.identity(0), self.identity(1), self.identity(7)
        return [
            {"kind": "wrong_label", "action": "move", "confidence": 0.999, "score": 0.4, "image": self.image(0),
             "identity": first, "other_identity": last, "evidence": {"similarity_to_own": 0.02}},
            {"kind": "stranger", "action": "drop", "confidence": 0.97, "score": 0.3, "image": self.image(12),
             "identity": second, "evidence": {HOSTILE: 1.5}},
            {"kind": "same_person", "action": "merge", "confidence": 0.9, "score": 0.3, "identity": second,
             "other_identity": last},
            {"kind": "two_people", "action": "split", "confidence": 0.8, "score": 0.2, "identity": last,
             "images": [self.image(row) for row in range(70, 75)]},
            {"kind": "duplicate", "action": "drop", "confidence": 0.7, "score": 0.99, "image": self.image(1),
             "identity": first, "other_image": self.image(13), "other_identity": second},
            {"kind": "leaked", "action": "drop", "confidence": 0.6, "score": 0.5, "identity": first,
             "other_identity": self.identity(3, test=True)}]

    def open_page(self, findings):
        page = self.folder / f"{findings.stem}.html"
        done = self.succeeded(run(BIN / "pfcctl", "data", "review", "--findings", findings, "--in", self.set,
                                  "--against", self.data, "--out", page, env=self.environment))
        self.browser.open(page.as_uri())
        return done.stdout

    def open_findings(self):
        findings = self.folder / "findings.jsonl"
        findings.write_text("".join(json.dumps(each) + "\n" for each in self.findings()))
        self.open_page(findings)
        return findings.read_text().splitlines()

    def click(self, name):
        self.browser.script("document.getElementById(arguments[0]).click()", name)

    def choose(self, name, value):
        self.browser.script("""
            const field = document.getElementById(arguments[0]);
            field.value = arguments[1];
            field.dispatchEvent(new Event("input"));
            field.dispatchEvent(new Event("change"));""", name, value)

    def assert_at(self, title, decided):
        self.assertEqual(self.browser.text("#title"), title)
        self.assertTrue(self.browser.text("#decided").startswith(decided), self.browser.text("#decided"))

    def saved(self):
        self.click("save")
        file = self.folder / "decisions.jsonl"
        self.wait_for("the saved file", lambda: file.exists() and file.read_bytes().endswith(b"\n"))
        return file

    def test_decisions_survive_a_reload_and_go_into_a_file(self):
        lines = self.open_findings()
        self.assert_at("Wrong label", "0 of 6 decided")
        self.browser.press("a")
        self.assert_at("Stranger", "1 of 6 decided")
        self.browser.press(browser.Keys.ARROW_RIGHT, "r")
        self.assert_at("Two people", "2 of 6 decided: 1 accepted, 1 rejected")
        self.browser.press("u")
        self.assert_at("Same person", "1 of 6 decided")
        self.browser.press("r", browser.Keys.ARROW_LEFT)
        self.assert_at("Stranger", "2 of 6 decided")

        self.choose("threshold", "0.75")  # the stranger and the two people
        self.assertEqual(self.browser.text("#accept-all"), "Accept 2")
        self.choose("kind", "two_people")
        self.assertEqual(self.browser.text("#accept-all"), "Accept 1")
        self.click("accept-all")
        self.assertIn("3 of 6 decided", self.browser.text("#decided"))
        self.click("undo")
        self.assert_at("Two people", "2 of 6 decided")

        self.browser.script("document.getElementById('threshold').focus()")
        self.browser.press("a", "r", browser.Keys.ARROW_RIGHT)
        self.assert_at("Two people", "2 of 6 decided")

        self.browser.driver.refresh()
        self.assert_at("Stranger", "2 of 6 decided: 1 accepted, 1 rejected")
        self.choose("state", "r")
        self.assert_at("Same person", "2 of 6 decided")
        saved = self.saved()
        decided = [line[:-1] + f',"decision":"{decision}"}}' if decision else line
                   for line, decision in zip(lines, ("accept", "", "reject", "", "", ""))]
        self.assertEqual(saved.read_text().splitlines(), decided)

        self.open_page(saved)
        self.assert_at("Stranger", "2 of 6 decided: 1 accepted, 1 rejected")
        self.assertEqual(self.browser.complaints(), [])

    def test_names_are_text_and_all_images_are_shown(self):
        self.open_findings()
        self.choose("state", "")
        groups = []
        titles = ("Wrong label", "Stranger", "Same person", "Two people", "Duplicate", "Leaked")
        for title, each in zip(titles, self.findings()):
            self.assert_at(title, "0 of 6 decided")
            shown = self.browser.wait("its images", lambda: self.browser.script("""
                const images = [...document.querySelectorAll(".images > *")];
                return images.every((e) => e.naturalWidth === 32) &&
                  [...document.querySelectorAll("figure")].map((e) => e.querySelectorAll("img").length);"""))
            groups.append(shown)
            if each["kind"] in ("wrong_label", "same_person", "two_people"):
                self.assertIn(HOSTILE, self.browser.text("#sentence"))
            self.browser.press(browser.Keys.ARROW_RIGHT)
        self.assertEqual(groups, [[1, 4, 4], [1, 4], [4, 4], [4, 4], [1, 1], [4, 4]])
        self.assertEqual(self.browser.script("return document.title"), "Review of findings")
        self.assertEqual(self.browser.script("return document.querySelectorAll('img[onerror], script[src]').length"), 0)
        self.assertEqual(self.browser.complaints(), [])

    def test_texts_are_legible_in_light_and_dark_wide_and_narrow(self):
        self.open_findings()
        self.assert_at("Wrong label", "0 of 6 decided")
        self.browser.script("document.getElementById('more').open = true")
        self.browser.assert_legible(self)

    def test_follows_the_decisions_of_another_tab(self):
        self.open_findings()
        self.browser.script("""
            const key = Object.keys(localStorage).find((each) => each.startsWith("pfc-review"));
            const newValue = "ar" + localStorage.getItem(key).slice(2);
            window.dispatchEvent(new StorageEvent("storage", { key, newValue }));""")
        self.assert_at("Same person", "2 of 6 decided")

    def test_warns_if_the_browser_keeps_nothing(self):
        script = self.browser.command("Page.addScriptToEvaluateOnNewDocument", source="""
            Object.defineProperty(window, "localStorage", { get() { throw new Error("blocked"); } });""")
        try:
            self.open_findings()
            self.assertIn("does not keep your decisions", self.browser.text("#kept"))
            self.browser.press("a")
            self.assert_at("Stranger", "1 of 6 decided")
            self.saved()
        finally:
            self.browser.command("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])


if __name__ == "__main__":
    unittest.main()
