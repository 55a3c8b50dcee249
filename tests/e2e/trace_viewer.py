"""Opens a file of pfcctl trace in a real viewer: speedscope, in a headless Chromium.

speedscope/ pins its version. It is installed from npm's registry once per build folder."""

import base64
import json
import os
import pathlib
import re
import shutil
import subprocess

from browser import Browser

PINNED = pathlib.Path(__file__).resolve().parent / "speedscope"
WORK = pathlib.Path(os.environ["PFC_BIN"]).parent / "tests/e2e/speedscope"


def install():
    """Returns why it cannot be installed here; empty if it can. Any other npm failure is an error."""
    if shutil.which("npm") is None:
        return "no npm"
    WORK.mkdir(parents=True, exist_ok=True)
    for file in PINNED.iterdir():
        shutil.copy(file, WORK)
    lock, done = (PINNED / "package-lock.json").read_text(), WORK / "installed"
    if done.exists() and done.read_text() == lock:
        return ""
    got = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=WORK, capture_output=True,
                         text=True, timeout=300)
    if got.returncode and re.search(r"ENOTFOUND|ECONNREFUSED|ECONNRESET|EAI_AGAIN|ETIMEDOUT", got.stderr):
        return "npm's registry does not answer"
    assert got.returncode == 0, got.stderr
    done.write_text(lock)
    return ""


class Viewer:
    """speedscope's view of a trace."""

    def __init__(self, environment, limit, folder, trace):
        # Passes the file like speedscope's own command line.
        text = base64.b64encode(trace.read_bytes()).decode()
        handed = folder / "handed.js"
        handed.write_text(f"speedscope.loadFileFromBase64({json.dumps(trace.name)}, {json.dumps(text)});")
        self.browser = Browser(environment, limit)
        page = WORK / "node_modules/speedscope/dist/release/index.html"
        self.browser.open(f"{page.as_uri()}#localProfilePath={handed}")
        self.browser.wait("the viewer's drawing", lambda: self.browser.script("return document.querySelector('canvas') !== null"))

    def profiles(self):
        """Returns {row's name: [(name, begin, end), ...]} in microseconds from the file that speedscope exports."""
        self.browser.script("""
            const make = URL.createObjectURL;
            URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return make(blob); };
            window.dispatchEvent(new KeyboardEvent('keydown', {key: 's', code: 'KeyS', keyCode: 83, ctrlKey: true, metaKey: true}));
        """)
        saved = json.loads(self.browser.wait("the saved file", lambda: self.browser.script("return window.saved ?? ''")))
        frames = [frame["name"] for frame in saved["shared"]["frames"]]
        return {profile["name"]: spans(profile, frames) for profile in saved["profiles"]}

    def close(self):
        self.browser.close()


def spans(profile, frames):
    assert (profile["type"], profile["unit"]) == ("evented", "microseconds"), profile["name"]
    begun, ended = [], []
    for event in profile["events"]:
        if event["type"] == "O":
            begun.append((event["frame"], event["at"]))
        else:
            frame, begin = begun.pop()
            assert frame == event["frame"], f"{profile['name']}: {event} closes {frames[frame]}"
            ended.append((frames[frame], begin, event["at"]))
    assert not begun, profile["name"]
    return ended
