"""All rules of WCAG 2, A and AA, that axe-core checks: on each view, in light and dark, wide and narrow."""
import importlib.resources, json, urllib.parse

from selenium.webdriver.support.ui import Select

from browser import BrowserTest

AXE = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {runOnly: {type: "tag", values: arguments[0]}, rules: {"target-size": {enabled: true}}, resultTypes: ["violations"]})
  .then(({violations}) => done(violations.map(({id, nodes}) => `${id}: ${nodes.map(({html, any, all, none}) =>
    `${html.slice(0, 120)} (${[...any, ...all, ...none].map(({message}) => message).join("; ").slice(0, 200)})`).slice(0, 4).join(" | ")}`)),
  (error) => done([String(error)]));
"""
WIDTHS = (1280, 360)
SCHEMES = ("light", "dark")


def address(op, request):
    return f"/#try?{urllib.parse.urlencode({'op': op, 'request': json.dumps(request)})}"


class Accessibility(BrowserTest):
    def setUp(self):
        super().setUp()
        with self.client() as client:
            client.request("PUT", "/v1/tensors/films@1", {"tensor": [[1, 2], [3, -4.5]], "keys": ["Alien", "Dune"]})
            client.request("POST", "/v1/aliases", {"set": {"films": "films@1"}})

    def emulate(self, width, scheme):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def audit(self, path, selector, act=lambda: None):
        """no rule is broken at `path` once it shows `selector`, and `act` has been done"""
        self.addCleanup(self.browser.execute_cdp_cmd, "Emulation.clearDeviceMetricsOverride", {})
        self.addCleanup(self.browser.execute_cdp_cmd, "Emulation.setEmulatedMedia", {"features": []})
        for width in WIDTHS:
            for scheme in SCHEMES:
                with self.subTest(path, width=width, scheme=scheme):
                    self.emulate(width, scheme)
                    self.browser.get("about:blank")
                    self.open(path)
                    self.one(selector)
                    act()
                    self.wait(lambda: not self.all("main [aria-busy]"))
                    self.browser.execute_script(AXE)
                    self.assertEqual(self.browser.execute_async_script(RUN, TAGS), [])
                    self.assertLessEqual(self.browser.execute_script("return document.documentElement.scrollWidth"), width)

    def press(self, selector, text=None):
        """clicks the element where the bar at the lower edge does not cover it"""
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", self.one(selector, text))
        self.click(selector, text)

    def test_a_request_and_its_answer(self):
        self.audit("/#try?op=gather", ".output")

    def test_an_equation(self):
        ones = [[1, 1], [1, 1]]
        self.audit(address("einsum", {"equation": "ij,jk,kl->il", "inputs": [ones, ones, ones]}), ".tree")

    def test_the_keys_of_a_table(self):
        self.audit(address("gather", {"params": {"ref": "films"}, "indices": [0]}), ".key-search input", lambda: (self.press(".key-search input"), self.one(".options li")))

    def test_an_error_at_its_place(self):
        self.expected_messages = ("422",)
        self.audit(address("gather", {"params": [1, 2], "indices": [0, 7]}), "td.bad")
        self.audit(address("einsum", {"equation": "ij->!", "inputs": [[[1, 2]]]}), ".lead mark")

    def test_an_answer_as_a_picture_and_as_json(self):
        for form in ("heat map", "JSON"):
            self.audit("/#try?op=gather", ".output", lambda: self.press(".output button", form))

    def test_the_tables(self):
        self.audit("/#tables", ".listing")

    def test_a_table(self):
        self.audit("/#tables?name=films@1", ".rows td")

    def test_the_rows_nearest_to_a_row(self):
        self.expected_messages = ("422",)
        for near, selector in (("Alien", ".nearest tbody td"), ("Solaris", ".nearest .error")):
            self.audit(f"/#tables?name=films@1&near={near}", selector)
        self.audit("/#tables?name=films@1", ".nearest form", self.choose_vector)

    def choose_vector(self):
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", self.one(".nearest select"))
        Select(self.one(".nearest select")).select_by_value("vector")
        self.one(".nearest textarea")

    def test_the_dialog_before_a_deletion(self):
        self.audit("/#tables", ".listing", lambda: self.click("button.danger"))

    def test_the_dialog_for_a_token(self):
        self.audit("/#try?op=gather", ".output", lambda: self.click("#token-button"))

    def test_a_program_and_its_result(self):
        self.audit("/#programs", ".graph", lambda: (self.press("[aria-label=examples] button", "Score and rank"), self.one(".message", "d = 2"), self.press("#run"), self.one(".result .output")))

    def test_an_error_in_a_program(self):
        self.expected_messages = ("422",)
        program = {"inputs": {"x": [1, 2]}, "steps": [{"op": "top_k", "x": "$x", "k": 3, "as": {"values": "best"}}], "outputs": ["best"]}
        draft = json.dumps({"text": json.dumps(program)})
        self.audit(f"/#programs?{urllib.parse.urlencode({'request': draft})}", ".message .help", lambda: (self.press("#check"), self.one(".message .place")))

    def test_the_stored_programs(self):
        with self.client() as client:
            for name, table in (("ready", "films"), ("waiting", "gone")):
                steps = [{"op": "square", "x": {"ref": table}, "as": "squares"}]
                client.request("PUT", f"/v1/programs/{name}", {"inputs": {}, "steps": steps, "outputs": ["squares"]})
        self.addCleanup(self.delete_programs)
        self.audit("/#programs?name=waiting", ".programs td .problem-text")

    def delete_programs(self):
        with self.client() as client:
            for name in ("ready", "waiting"):
                client.request("DELETE", f"/v1/programs/{name}")

    def test_live(self):
        self.audit("/#live", ".charts")

    def test_the_reference_of_the_endpoints(self):
        self.audit("/docs#docs?part=http&at=gather", "#endpoint-gather[open] table", lambda: self.click("#endpoint-gather .problems summary"))

    def test_the_reference_of_the_ops(self):
        self.audit("/docs", "section.op")
