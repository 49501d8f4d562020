"""Docs: the reference of the ops, and the endpoints as the OpenAPI document has them."""
from browser import BrowserTest


class Docs(BrowserTest):
    def document(self):
        with self.client() as client:
            return client.request("GET", "/openapi.json").json()

    def open_endpoint(self, name):
        self.browser.get("about:blank")
        self.open(f"/docs#docs?part=http&at={name}")
        return self.one(f"#endpoint-{name}[open] .details-body > *") and self.one(f"#endpoint-{name}")

    def rows(self, node, label):
        tables = node.find_elements("css selector", f"[aria-label='{label}'] tbody tr")
        return [[cell.text for cell in row.find_elements("css selector", "td")] for row in tables]

    def test_every_op_is_described(self):
        self.open("/docs")
        self.one("section.op")
        with self.client() as client:
            ops = [op["name"] for op in client.request("GET", "/v1/ops").json()["ops"]]
        self.assertEqual([title.text for title in self.all("section.op h2")], ops)
        self.assertEqual(sorted(name.text for name in self.all(".contents button")), sorted(ops))
        self.assertIn("add", [name.text for name in self.all(".contents[aria-label=elementwise] button")])

    def test_every_endpoint_is_listed_once(self):
        self.open("/docs")
        self.click(".parts a", "HTTP API")
        self.one(".endpoint")
        expected = sorted(f"{method.upper()} {path}" for path, methods in self.document()["paths"].items() for method in methods)
        shown = self.browser.execute_script("return [...document.querySelectorAll('.endpoint > summary')].map((node) => `${node.children[0].textContent} ${node.children[1].textContent}`)")
        self.assertEqual(sorted(shown), expected)
        self.assertEqual(self.text("a[href='/openapi.json']"), "/openapi.json")

    def test_an_endpoint_has_parameters_schemas_problems_and_an_example(self):
        node = self.open_endpoint("gather")
        request = {row[0]: row[1:] for row in self.rows(node, "body application/json")}
        self.assertEqual(request["indices"][0], "Tensor or Keys")
        self.assertIn("Required.", request["params"][1])
        self.assertEqual(request["bounds"][0], '"error" | "zero" | "clip" | "wrap"')
        self.assertIn("Default: error.", request["bounds"][1])
        parameters = {row[0]: row[1:] for row in self.rows(node, "parameters")}
        self.assertEqual(parameters["X-Request-Timeout-Ms"], ["header", "integer", "The deadline of the request. (at least 1, at most 86400000)"])
        self.assertEqual([row[0] for row in self.rows(node, "reply application/json")], ["output", "bounds"])
        self.assertIn(f"curl -s '{self.origin}/v1/gather' -d '", node.find_element("css selector", "pre").text)
        node.find_element("css selector", ".problems summary").click()
        problems = dict(self.rows(node, "problems"))
        self.assertIn("INDEX_OUT_OF_BOUNDS", problems["422"])
        link = next(link for link in node.find_elements("css selector", ".problems a") if link.text == "INDEX_OUT_OF_BOUNDS")
        self.assertEqual(link.get_attribute("href"), self.origin + "/problems/index-out-of-bounds")

    def test_short_words_are_not_broken(self):
        node = self.open_endpoint("gather")
        cell = next(cell for cell in node.find_elements("css selector", "[aria-label=parameters] td:nth-child(2)") if cell.text == "header")
        self.assertEqual(self.browser.execute_script("const range = document.createRange(); range.selectNodeContents(arguments[0]); return range.getClientRects().length", cell), 1)

    def test_a_schema_is_opened_from_where_it_is_named(self):
        node = self.open_endpoint("put_tensor")
        node.find_element("xpath", ".//button[text()='TableAndKeys' or text()='TensorOrTable']").click()
        self.one("#schema-TensorOrTable[open] .details-body > *")
        self.click("#schema-TensorOrTable button", "TableAndKeys")
        self.wait(lambda: [member[:2] for member in self.rows(self.one("#schema-TableAndKeys[open]"), "TableAndKeys")]
                  == [["tensor", "Tensor"], ["keys", "Tensor"]])

    def test_every_endpoint_and_every_schema_can_be_drawn(self):
        self.open("/docs#docs?part=http")
        self.one(".endpoint")
        self.browser.execute_script("for (const node of document.querySelectorAll('details')) node.open = true")
        self.wait(lambda: self.browser.execute_script("return [...document.querySelectorAll('.details-body')].every((node) => node.hasChildNodes())"))
        self.assertNotIn("undefined", self.text("#view"))
        self.assertNotIn("[object", self.text("#view"))

    def test_endpoints_are_found_by_path_and_sentence(self):
        self.open("/docs#docs?part=http")
        self.type("input[type=search]", "ALIASES")
        self.wait(lambda: [node.text for node in self.all(".endpoint code") if node.is_displayed()] == ["/v1/aliases", "/v1/aliases"])
        self.one("[role=status]", "2 of")
