"""A browser on a page of a daemon, and what a test asks of it."""
import json, os, unittest

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from daemon import Client, Daemon

PATIENCE_S, POLL_S = 300, 0.05  # the first only ends a hang
# Chromium without windows of its own takes two thirds of the processor time. The script of this name in /usr/bin would not end it.
CHROMIUM = "/usr/lib/chromium/chromium-headless-shell"
# No name is resolved, so nothing is reached but the daemon; the page could not tell.
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1000",
             "--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")

# A notice goes away after some seconds. A slow test asks later than that, so all notices that could be seen are kept.
KEEP_NOTICES = """
window.shown = [];
document.addEventListener("DOMContentLoaded", () => {
    const notices = document.getElementById("notices");
    const keep = (nodes) => window.shown.push(...[...nodes].filter((node) => node.getClientRects().length).map((node) => [node.className, node.textContent]));
    if (!notices) return;
    keep(notices.children);
    new MutationObserver((changes) => changes.forEach((change) => keep(change.addedNodes))).observe(notices, {childList: true});
});
"""


def open_browser(*more):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (*ARGUMENTS, *more):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    browser.set_script_timeout(PATIENCE_S)
    return browser


class BrowserTest(unittest.TestCase):
    """One browser and one daemon for the tests of a class.  A message in the browser's console, or a request to another
    origin, fails the test in which it happens."""
    OPTIONS = ()
    expected_messages = ()  # parts of messages that a test provokes: a request that is refused is one

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(*cls.OPTIONS)
        cls.origin = f"http://127.0.0.1:{cls.daemon.port}"
        cls.browser = open_browser()
        cls.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": KEEP_NOTICES})

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        cls.daemon.stop()

    def setUp(self):
        self.expected_messages = ()
        self.browser.get("about:blank")
        self.drain()

    def tearDown(self):
        folder = os.environ.get("TD_TEST_PICTURES")
        if folder:
            self.browser.save_screenshot(os.path.join(folder, self.id().split(".", 1)[1] + ".png"))
        messages, elsewhere = self.drain()
        self.assertEqual([message for message in messages if not any(part in message for part in self.expected_messages)], [])
        self.assertEqual(elsewhere, [])

    def drain(self):
        """the messages so far, and the addresses requested that are not the daemon's"""
        requests = []
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                requests.append(message["params"]["request"]["url"])
        mine = (self.origin + "/", "data:", "about:", "blob:" + self.origin, "chrome:")
        return [entry["message"] for entry in self.browser.get_log("browser")], [url for url in requests if not url.startswith(mine)]

    def client(self):
        return Client(self.daemon)

    def open(self, path):
        self.browser.get(self.origin + path)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector, text=None):
        """the element, once it is there and has the text"""
        def found(_):
            return next((element for element in self.all(selector) if text is None or text in element.text), None)
        return WebDriverWait(self.browser, PATIENCE_S, POLL_S, ignored_exceptions=[Exception]).until(found, f"{selector} {text or ''}")

    def notice(self, text, kind=""):
        """waits until a notice with the text has been shown since the page was opened"""
        self.wait(lambda: any(text in shown and kind in classes for classes, shown in self.browser.execute_script("return window.shown")),
                  f"notice {text}")

    def click(self, selector, text=None):
        """clicks the element, once it can be clicked; it may be drawn again, or be covered, meanwhile"""
        self.wait(lambda: self.one(selector, text).click() is None, f"click {selector} {text or ''}")

    def type(self, selector, *keys):
        """types into the element, once it can be typed into"""
        self.wait(lambda: self.one(selector).send_keys(*keys) is None, f"type into {selector}")

    def text(self, *element):
        """what the element says, also if it is drawn again meanwhile"""
        return self.wait(lambda: [self.one(*element).text])[0]

    def attribute(self, name, *element):
        """the same for an attribute"""
        return self.wait(lambda: [self.one(*element).get_attribute(name)])[0]

    def wait(self, condition, message=""):
        return WebDriverWait(self.browser, PATIENCE_S, POLL_S, ignored_exceptions=[Exception]).until(lambda _: condition(), message)

    def ready(self, path):
        """opens an op's form, and waits for the answer of its example"""
        self.browser.get("about:blank")  # or only the part after # changes, and the page stays
        self.open(path)
        self.one(".result > *")
        self.wait(lambda: not self.all("main [aria-busy]"))

    def values(self, selector):
        return [cell.text for cell in self.all(f"{selector} td[data-index]")]

    def lit(self):
        return [cell.get_attribute("title") for cell in self.all("td.lit")]
