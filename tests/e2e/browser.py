"""A headless Chromium that opens the coordinator's page."""

import base64
import io
import shutil
import tempfile
import time

try:
    from PIL import Image
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

DRIVER, CHROMIUM = shutil.which("chromedriver"), shutil.which("chromium")

# Records policy violations and errors from the page's first line on.
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (v) =>
  window.violations.push(v.effectiveDirective + " " + v.blockedURI));
window.addEventListener("error", (e) => window.violations.push("error: " + e.message));
window.addEventListener("unhandledrejection", (e) => window.violations.push("rejected: " + e.reason));
"""

# Contrast of colours (WCAG 2.2, 1.4.3) for all visible texts.
CONTRAST = """
const channel = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parts = (text) => text.match(/[\\d.]+/g).map(Number);
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const c = parts(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] === 1) return c;
  }
  return [255, 255, 255];
};
const poor = [];
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.checkVisibility() || e.closest(".unseen, .skip, button:disabled, canvas")) continue;
  const [a, b] = [light(parts(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) poor.push(`${e.tagName}.${e.className} "${e.textContent.slice(0, 30)}" ${ratio.toFixed(2)}`);
}
return poor;
"""


def is_here():
    return bool(webdriver and DRIVER and CHROMIUM)


class Browser:
    """close() returns the console's messages."""

    def __init__(self, environment, limit):
        self.limit = limit
        self.folder = tempfile.mkdtemp(prefix="pfc-browser-")
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
                     "--force-color-profile=srgb", "--disable-features=BackForwardCache", "--ignore-certificate-errors",
                     f"--user-data-dir={self.folder}"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(DRIVER, env=environment), options=options)
        self.driver.set_page_load_timeout(limit)
        self.command("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        self.plain()

    def command(self, name, **arguments):
        return self.driver.execute_cdp_cmd(name, arguments)

    def size(self, width, height, mobile=False):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                     mobile=mobile)

    def prefer(self, scheme, motion="no-preference"):
        self.command("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion}])

    def show_token(self, token):
        """Sends the token as the password of every request, like a browser after its prompt."""
        word = base64.b64encode(f"anybody:{token}".encode()).decode()
        self.command("Network.enable")
        self.command("Network.setExtraHTTPHeaders", headers={"Authorization": f"Basic {word}"})

    def reset(self):
        """Clears the last page's console messages, token, size and colours."""
        # A page in the back-forward cache would keep its connection; a browser has six per server.
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.command("Network.setExtraHTTPHeaders", headers={})
        self.plain()

    def plain(self):
        """Restores the initial size and colours."""
        self.prefer("light")
        self.size(1360, 900)

    def open(self, address):
        self.driver.get(address)

    def text(self, selector):
        return self.script("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def texts(self, selector):
        return self.script("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def is_shown(self, selector):
        return self.script("return document.querySelector(arguments[0])?.checkVisibility() ?? false", selector)

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def wait(self, what, condition):
        """Polls until the condition holds and returns its value."""
        deadline = time.monotonic() + self.limit
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} has not happened; the page says:\n{self.text('body')[:3000]}")
            time.sleep(0.1)

    def press(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def focused(self):
        return self.script("return document.activeElement.id || document.activeElement.tagName")

    def tab_to(self, name, most=40):
        """Presses Tab until the element with this id has the focus."""
        for _ in range(most):
            self.press(Keys.TAB)
            if self.focused() == name:
                return
        raise AssertionError(f"the Tab key does not reach {name}")

    def screenshot(self, path, whole=False):
        picture = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole,
                               **({"clip": self.whole()} if whole else {}))
        with Image.open(io.BytesIO(base64.b64decode(picture["data"]))) as image:
            few = image.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
            few.save(path, optimize=True)

    def whole(self):
        size = self.command("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}

    def assert_legible(self, test):
        """Fails if a text has a poor contrast, or the page is wider than the screen, on a desktop or a phone."""
        for scheme in ("light", "dark"):
            for width, height in ((1360, 900), (390, 844)):
                with test.subTest(scheme=scheme, width=width):
                    self.prefer(scheme)
                    self.size(width, height, mobile=width < 500)
                    test.assertEqual(self.script(CONTRAST), [])
                    overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
                    self.wait("a page as wide as the screen", lambda: self.script(overflow) <= 0)

    def complaints(self):
        """Returns policy violations, script errors, and problems in the console."""
        lines = [f"{line['level']}: {line['message']}" for line in self.driver.get_log("browser")
                 if line["level"] in ("SEVERE", "WARNING")]
        return lines + self.script("return window.violations ?? ['the page was not watched']")

    def close(self):
        self.driver.quit()
        shutil.rmtree(self.folder, ignore_errors=True)
