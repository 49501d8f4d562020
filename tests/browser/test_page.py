"""What holds for every view: keyboard, names of controls, narrow windows, both colour schemes, the first paint."""
from selenium.webdriver import ActionChains, Keys

from browser import BrowserTest

VIEWS = ("/#try?op=gather", "/#try?op=einsum", "/#tables", "/#live", "/docs")

# Every control has a name that a screen reader says.
NAMELESS = """
return [...document.querySelectorAll("button, input, select, textarea, a, canvas, dialog")].filter((node) =>
  !(node.textContent.trim() && !/^(INPUT|SELECT|TEXTAREA|CANVAS|DIALOG)$/.test(node.tagName)) && !node.getAttribute("aria-label")
  && !node.getAttribute("aria-labelledby") && !(node.labels && node.labels.length)).map((node) => node.outerHTML.slice(0, 120));
"""

# The contrast of each text with what is painted behind it, by WCAG 2.
FAINT = """
const channel = (c) => (c /= 255, c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
const behind = (node) => { for (; node; node = node.parentElement) {
  const colour = numbers(getComputedStyle(node).backgroundColor);
  if (colour.length < 4 || colour[3] > 0) return colour.slice(0, 3); } return [255, 255, 255]; };
const faint = [];
for (const node of document.querySelectorAll("body *")) {
  if (![...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()) || !node.checkVisibility()) continue;
  const [one, other] = [light(numbers(getComputedStyle(node).color)), light(behind(node))].sort((a, b) => b - a);
  const ratio = (one + 0.05) / (other + 0.05);
  if (ratio < 4.5) faint.push(`${node.tagName}.${node.className} ${ratio.toFixed(2)}: ${node.textContent.slice(0, 40)}`);
}
return faint;
"""


class Page(BrowserTest):
    def shown(self, path):
        self.open("about:blank" if path.startswith("about") else path)
        self.one(".result > *" if "try" in path else ".listing" if "tables" in path else ".charts" if "live" in path else "section.op")

    def test_controls_have_names(self):
        for path in VIEWS:
            with self.subTest(path):
                self.shown(path)
                self.assertEqual(self.browser.execute_script(NAMELESS), [])

    def test_texts_stand_out_in_light_and_dark(self):
        for scheme in ("light", "dark"):
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
            for path in VIEWS:
                with self.subTest(path, scheme=scheme):
                    self.shown(path)
                    self.assertEqual(self.browser.execute_script(FAINT), [])
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def test_narrow_windows_do_not_scroll_sideways(self):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": False})
        self.addCleanup(self.browser.execute_cdp_cmd, "Emulation.clearDeviceMetricsOverride", {})
        for path in VIEWS:
            with self.subTest(path):
                self.shown(path)
                self.assertLessEqual(self.browser.execute_script("return document.documentElement.scrollWidth"), 360)

    def test_everything_is_reached_by_the_keyboard(self):
        self.shown("/#try?op=gather")
        controls = self.browser.execute_script("return document.querySelectorAll('a[href], button:not(:disabled), select, textarea, input').length"
                                               " - document.querySelectorAll('dialog *:is(a, button, input), [hidden] *:is(input, select, textarea, button)').length")
        reached = set()
        for _ in range(controls + 20):
            ActionChains(self.browser).send_keys(Keys.TAB).perform()
            reached.add(self.browser.execute_script("const e = document.activeElement; return e.id || e.outerHTML.slice(0, 200)"))
        self.assertGreaterEqual(len(reached), controls)

    def test_the_cells_of_an_answer_are_walked_with_arrows(self):
        self.shown("/#try?op=gather")
        cell = self.one(".output td[data-index='0']")
        self.browser.execute_script("arguments[0].focus()", cell)
        ActionChains(self.browser).send_keys(Keys.ARROW_DOWN).perform()
        self.assertEqual(self.browser.execute_script("return document.activeElement.dataset.index"), "2")
        self.one(".told", "output[1,0] ← params[0,0]")

    def test_the_first_paint_comes_within_200_ms(self):
        times = []
        for _ in range(5):
            self.shown("/#try?op=gather")
            times.append(self.browser.execute_script("return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"))
            self.open("/docs")
        print(f"first paint: {sorted(times)[2]:.0f} ms, median of 5")

    def test_the_page_is_small(self):
        self.shown("/#try?op=gather")
        sizes = self.browser.execute_script("return performance.getEntriesByType('resource').filter((e) => e.name.includes('/console/')).map((e) => e.decodedBodySize)")
        self.assertGreater(len(sizes), 10)
        self.assertLess(sum(sizes), 300_000)


class WithToken(BrowserTest):
    """the page asks for a token where one is needed"""
    @classmethod
    def setUpClass(cls):
        import tempfile
        cls.tokens = tempfile.NamedTemporaryFile("w", suffix=".tokens")
        cls.secret = "0123456789abcdef" * 2
        cls.tokens.write(f"admin {cls.secret}\n")
        cls.tokens.flush()
        cls.OPTIONS = ("--token-file", cls.tokens.name)
        super().setUpClass()

    def test_a_token_is_asked_for_and_kept_in_memory(self):
        self.expected_messages = ("401",)
        self.open("/")
        self.one("dialog[open]")
        self.one("#token-problem", "wants a token")
        self.one("#token-input").send_keys("wrong" * 8, Keys.ENTER)
        self.one("#token-problem", "does not know this token")
        self.one("#token-input").send_keys(self.secret, Keys.ENTER)
        self.one(".output .type")
        self.assertIn("$TOKEN", self.one(".code").text)
        self.assertNotIn(self.secret, self.browser.execute_script("return document.documentElement.outerHTML + JSON.stringify([{...localStorage}, {...sessionStorage}]) + document.cookie"))
        self.browser.refresh()
        self.one("dialog[open]")
