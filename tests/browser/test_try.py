"""Try: the form of each op, its example, what its answer came from, and errors at their places."""
import base64, json, os, shutil, struct, subprocess, sys, tempfile, urllib.parse

from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.support.ui import Select

from browser import BrowserTest, PATIENCE_S
from daemon import npy


def address(op, request):
    return f"/#try?{urllib.parse.urlencode({'op': op, 'request': json.dumps(request)})}"


class Try(BrowserTest):
    def test_the_example_of_every_op_runs(self):
        with self.client() as client:
            ops = [op["name"] for op in client.request("GET", "/v1/ops").json()["ops"]]
            expected = {}
            for op in ops:
                example = client.request("GET", f"/v1/ops/{op}").json()["example"]
                reply = client.request("POST", f"/v1/{op}", example["request"]).json()
                outputs = [reply["output"]] if "output" in reply else list(reply["outputs"].values() if isinstance(reply["outputs"], dict) else reply["outputs"])
                expected[op] = [f"{output['dtype']} [{','.join(map(str, output['shape']))}]" for output in outputs]
        for op in ops:
            with self.subTest(op):
                self.ready(f"/#try?op={op}")
                self.assertEqual([element.text for element in self.all(".output h3 .type")], expected[op])
                self.assertIn(f"/v1/{op}", self.text(".code"))

    def fill(self, field, text):
        self.browser.execute_script("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))", field, text)

    def test_a_long_request_is_in_the_address(self):
        self.ready("/#try?op=gather")
        long = json.dumps([[i, i] for i in range(3000)])
        self.fill(self.all(".tensor-input textarea")[0], long)
        self.wait(lambda: "packed=" in self.browser.current_url)
        self.browser.refresh()
        self.one(".output td")
        self.assertEqual(json.loads(self.all(".tensor-input textarea")[0].get_attribute("value")), json.loads(long))

    def test_a_request_that_no_address_holds_is_told(self):
        self.ready("/#try?op=gather")
        self.fill(self.all(".tensor-input textarea")[0], json.dumps([hash((i, i)) for i in range(9000)]))
        self.notice("too long for the address")

    def test_what_is_no_json_yet_stays_as_it_was_typed(self):
        self.ready("/#try?op=gather")
        self.fill(self.all(".tensor-input textarea")[0], "[[1, 2")
        self.browser.refresh()
        self.one(".problem-text", "not JSON yet")
        self.assertEqual(self.all(".tensor-input textarea")[0].get_attribute("value"), "[[1, 2")

    def test_the_language_and_the_form_of_the_answer_are_in_the_address(self):
        self.ready("/#try?op=gather")
        self.click(".snippet button", "Python")
        self.click(".output button", "JSON")
        self.browser.refresh()
        self.one(".output pre")
        self.assertIn("import", self.text(".code"))

    def test_ops_of_a_large_family_are_a_group(self):
        with self.client() as client:
            ops = client.request("GET", "/v1/ops").json()["ops"]
        families = {}
        for op in ops:
            families.setdefault(op["family"], []).append(op["name"])
        large = {family.replace("_", " "): names for family, names in families.items() if len(names) > 3}
        self.ready("/#try?op=add")
        groups = {group.get_attribute("label"): [option.get_attribute("textContent") for option in group.find_elements("css selector", "option")]
                  for group in self.all("#op > optgroup")}
        self.assertEqual(groups, large)
        self.assertEqual([option.text for option in self.all("#op > option")], [op["name"] for op in ops if len(families[op["family"]]) < 4])
        self.assertEqual(Select(self.one("#op")).first_selected_option.text, "add")
        self.one("#op").send_keys("tan")  # the list is searched as one types
        self.wait(lambda: "/v1/tanh" in self.text(".code"))

    def test_back_leads_to_the_op_before(self):
        self.ready("/#try?op=gather")
        Select(self.one("#op")).select_by_value("concat")
        self.wait(lambda: "/v1/concat" in self.text(".code"))
        self.browser.back()
        self.wait(lambda: "/v1/gather" in self.text(".code"))

    def test_members_of_a_link_that_the_form_lacks_are_told(self):
        self.ready(address("gather", {"params": [1, 2], "indices": [1], "response": "flat", "device": "cpu"}))
        self.notice("The link also sets response, device")

    def test_every_other_example_runs(self):
        with self.client() as client:
            ops = [op["name"] for op in client.request("GET", "/v1/ops").json()["ops"]]
            titles = {op: [example["title"] for example in client.request("GET", f"/v1/ops/{op}").json()["examples"]] for op in ops}
        for op in ops:
            self.ready(f"/#try?op={op}")
            choice = Select(self.one("#examples"))
            self.assertEqual(choice.first_selected_option.text, titles[op][0])
            self.assertEqual([option.text for option in choice.options[1:]], titles[op])
            for name in [option.text for option in choice.options[2:]]:
                with self.subTest(op, example=name):
                    before = self.one(".result > *")
                    choice.select_by_visible_text(name)
                    self.wait(lambda: self.one(".result > *") != before)
                    self.assertEqual([element.text for element in self.all(".error .meta")], [])
                    self.assertEqual(choice.first_selected_option.text, name)
        self.ready("/#try?op=gather")
        self.type_into(".tensor-input textarea", "[1, 2]")
        self.assertEqual(Select(self.one("#examples")).first_selected_option.text, "choose an example")

    def resize(self, width, height):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.addCleanup(self.browser.execute_cdp_cmd, "Emulation.clearDeviceMetricsOverride", {})

    def in_sight(self, selector):
        """the first element that matches is in the window, and nothing covers its middle"""
        return self.browser.execute_script("""
            const node = document.querySelector(arguments[0]), {top, bottom, left, right} = node.getBoundingClientRect();
            const reached = getComputedStyle(node).pointerEvents === "none" || node.contains(document.elementFromPoint((left + right) / 2, (top + bottom) / 2));
            return top >= 0 && bottom <= innerHeight && reached;""", selector)

    def test_run_is_always_in_sight(self):
        rows = [[i, i] for i in range(60)]
        for width, height in ((1400, 857), (1400, 600), (360, 800)):
            self.resize(width, height)
            for request in ({"params": [[1, 2], [3, 4]], "indices": [1]}, {"params": rows, "indices": list(range(60))}):
                self.ready(address("gather", request))
                for part in (0, 0.3, 0.7, 1):
                    with self.subTest(width=width, height=height, part=part):
                        self.browser.execute_script("scrollTo(0, arguments[0] * document.documentElement.scrollHeight)", part)
                        self.assertTrue(self.in_sight("#run"))

    def test_what_was_asked_for_is_shown(self):
        self.expected_messages = ("422",)
        self.resize(360, 800)
        self.ready("/#try?op=gather")
        self.click("#run")
        self.wait(lambda: self.in_sight(".output h3"))
        self.type_into(".input-group:nth-child(2) textarea", "[7]")
        self.click("#run")
        self.wait(lambda: self.in_sight("td.bad"))

    def test_an_equation_comes_before_the_inputs(self):
        self.ready("/#try?op=einsum")
        order = self.browser.execute_script("return [...document.querySelectorAll('.request input[type=text], .request textarea')].filter((node) => node.offsetParent).map((node) => node.labels[0].textContent)")
        self.assertEqual(order[0], "equation")
        self.assertRegex(self.text(".code"), '(?s){"equation": .*"inputs": ')

    def test_cells_out_of_sight_are_shown_beside_the_sentence(self):
        self.resize(360, 800)
        self.ready(address("gather", {"params": [[10 * i, 10 * i + 1] for i in range(30)], "indices": [7, 20]}))
        cell = self.one(".output td[data-index='3']")
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", cell)
        box = cell.rect
        place = {"x": box["x"] + 5, "y": box["y"] + 5 - self.browser.execute_script("return scrollY")}
        self.browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [place]})
        self.browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        self.one(".told", "output[1,1] ← params[20,1] by indices[1]")
        self.assertEqual([copy.text for copy in self.all(".excerpt td.lit-copy")], ["201", "20"])
        self.assertIn("190 191", self.text(".excerpt"))
        self.assertTrue(self.in_sight(".told") and self.in_sight("#run"))
        self.resize(1400, 1000)
        self.ready(address("gather", {"params": [[1, 2], [3, 4]], "indices": [1, 0]}))
        self.hover(1)
        self.assertEqual(self.all(".excerpt"), [])

    def test_a_lit_cell_is_scrolled_to_within_its_input(self):
        self.ready(address("gather", {"params": [[i] for i in range(100)], "indices": [90]}))
        self.hover(0)
        self.assertTrue(self.in_sight(".tensor-input td.lit"))

    def test_a_picture_has_its_scale_beside_it(self):
        self.ready("/#try?op=gather")
        field = self.one(".tensor-input textarea")
        self.browser.execute_script("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))", field, json.dumps([list(range(100))] * 200))
        picture = self.one(".tensor-input .picture")
        self.assertFalse(self.browser.execute_script("const grid = arguments[0].parentElement; return grid.scrollHeight > grid.clientHeight", picture))
        self.ready(address("gather", {"params": [[1, 2, -3], [3, 4, 5]], "indices": [0, 1]}))
        self.click(".output button", "heat map")
        size = self.one(".output canvas").size
        self.assertLessEqual((size["width"], size["height"]), (3 * 28 + 2, 2 * 28 + 2))

    def test_what_the_op_took_is_told_beside_the_way(self):
        self.ready("/#try?op=gather")
        self.assertRegex(self.text(".result .meta").replace("\u2009", " "), r"^compute \d+\.\d\d ms · server \d+\.\d\d ms · round trip \d+\.\d\d ms$")
        self.assertNotIn("timing", self.text(".code"))

    def hover(self, index, output=0):
        cell = self.all(".output")[output].find_element("css selector", f'td[data-index="{index}"]')
        ActionChains(self.browser).move_to_element(cell).perform()
        return self.text(".told p", "←")

    def test_an_output_cell_shows_where_it_came_from(self):
        self.ready(address("gather", {"params": [[1, 2], [3, 4], [5, 6]], "indices": [2, 0]}))
        self.assertEqual(self.hover(3), "output[1,1] ← params[0,1] by indices[1]")
        self.assertEqual(self.lit(), ["params[0,1] = 2", "indices[1] = 0"])
        self.assertEqual([cell.get_attribute("title") for cell in self.all("td.pointed")], ["output[1,1] = 2"])
        self.ready(address("gather", {"params": ["a", "b"], "indices": [7, 1], "bounds": "zero"}))
        self.assertEqual(self.hover(0), "output[0] ← no input cell by indices[0]")
        self.assertEqual(self.hover(1), "output[1] ← params[1] by indices[1]")
        self.ready(address("dynamic_stitch", {"indices": [[0, 2], [1]], "data": [[1, 2], [3]]}))
        self.assertEqual(self.hover(1), "output[1] ← data.1[0] by indices.1[0]")
        self.ready(address("dynamic_partition", {"data": [[1, 2], [3, 4]], "partitions": [1, 0], "num_partitions": 2}))
        self.assertEqual(self.hover(1), "outputs.0[0,1] ← data[1,1] by partitions[1]")

    def test_the_index_that_picked_a_cell_is_lit(self):
        cube = [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]]
        for op, request, index, told in (
                ("gather", {"params": cube, "indices": [[2, 0], [1, 1]], "axis": 1, "batch_dims": 1}, 6, "output[1,1,0] ← params[1,1,0] by indices[1,1]"),
                ("gather", {"params": cube, "indices": [1, 0], "axis": -1}, 1, "output[0,0,1] ← params[0,0,0] by indices[1]"),
                ("gather", {"params": cube, "indices": 1}, 1, "output[0,1] ← params[1,0,1] by indices"),
                ("gather", {"params": [1.5, 2.5], "indices": [1, 0], "dtype": "float64"}, 1, "output[1] ← params[0] by indices[1]"),
                ("batch_gather", {"params": [[1, 2, 3], [4, 5, 6]], "indices": [[2, 0], [1, 1]]}, 2, "output[1,0] ← params[1,1] by indices[1,0]"),
                ("gather_nd", {"params": cube, "indices": [[0, 2], [1, 0]]}, 2, "output[1,0] ← params[1,0,0] by indices[1,:]"),
                ("gather_nd", {"params": cube, "indices": [[[2, 1]], [[0, 0]]], "batch_dims": 1}, 0, "output[0,0] ← params[0,2,1] by indices[0,0,:]")):
            with self.subTest(op, told=told):
                self.ready(address(op, request))
                self.wait(lambda: self.hover(index) == told or ActionChains(self.browser).move_to_element(self.one(".brand")).perform())
        self.assertEqual(self.lit(), ["params[0,2,1] = 6", "indices[0,0,0] = 2", "indices[0,0,1] = 1"])

    def test_a_heat_map_shows_where_its_elements_came_from(self):
        self.ready(address("gather", {"params": [[1, 2], [3, 4], [5, 6]], "indices": [2, 0]}))
        self.click(".output button", "heat map")
        canvas = self.one(".output canvas")
        ActionChains(self.browser).move_to_element_with_offset(canvas, canvas.size["width"] // 4, canvas.size["height"] // 4).perform()
        self.one(".told", "output[1,1] ← params[0,1] by indices[1]")
        self.assertEqual(self.lit(), ["params[0,1] = 2", "indices[1] = 0"])
        ActionChains(self.browser).move_to_element(self.one(".brand")).perform()
        self.wait(lambda: not self.lit())

    def test_sums_show_all_their_terms(self):
        self.ready(address("einsum", {"equation": "ij,jk->ik", "inputs": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]}))
        self.assertEqual(self.hover(2), "output[1,0] ← inputs.0[1,:] · inputs.1[:,0]")
        self.assertEqual(self.lit(), ["inputs.0[1,0] = 3", "inputs.0[1,1] = 4", "inputs.1[0,0] = 5", "inputs.1[1,0] = 7"])
        self.assertEqual(self.told_by_equation(), "output[i,k] = Σj inputs.0[i,j] · inputs.1[j,k]")
        self.ready(address("einsum", {"equation": "ii,j->j", "inputs": [[[1, 2], [3, 4]], [5, 6]]}))
        self.assertEqual(self.hover(1), "output[1] ← inputs.0[i,i] · inputs.1[1]")
        self.assertEqual(self.lit(), ["inputs.0[0,0] = 1", "inputs.0[1,1] = 4", "inputs.1[1] = 6"])
        self.ready(address("einsum", {"equation": "...i,...i->...", "inputs": [[[1, 2], [3, 4]], [[5, 6]]]}))
        self.assertEqual(self.hover(1), "output[1] ← inputs.0[1,:] · inputs.1[0,:]")
        self.assertEqual(self.lit(), ["inputs.0[1,0] = 3", "inputs.0[1,1] = 4", "inputs.1[0,0] = 5", "inputs.1[0,1] = 6"])
        self.ready(address("embedding_bag", {"params": [[1, 2], [3, 4], [5, 6]], "indices": [2, 0, 1], "offsets": [0, 2]}))
        self.assertEqual(self.hover(1), "output[0,1] ← params[2,1], indices[0], params[0,1], indices[1]")

    def told_by_equation(self):
        return self.text(".lead .sentence").replace("\n", "")

    def test_bags_of_other_kinds_show_their_terms(self):
        table = [[1, 2], [3, 4], [5, 6]]
        self.ready(address("embedding_bag", {"params": table, "indices": [2, 0, 1], "offsets": [0], "padding_index": 0}))
        self.assertEqual(self.hover(0), "output[0,0] ← params[2,0], indices[0], params[1,0], indices[2]")
        self.ready(address("embedding_bag", {"params": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], "indices": [1], "offsets": [0]}))
        self.assertEqual(self.hover(2), "output[0,1,0] ← params[1,1,0], indices[0]")
        self.ready(address("embedding_bag", {"params": table, "indices": [7], "offsets": [0], "bounds": "clip"}))
        self.assertEqual(self.point(0), "output[0,0]")

    def point(self, index):
        """Where nothing is known of the sources."""
        ActionChains(self.browser).move_to_element(self.one(f".output td[data-index='{index}']")).perform()
        return self.text(".told p", "]")

    def test_what_is_not_known_is_not_told(self):
        rows = [[i] for i in range(10001)]
        for op, request in (("top_k", {"x": [3, 1, 2], "k": 2}),
                            ("gather", {"params": rows[:10], "indices": [2], "dtype": "float32"})):
            with self.subTest(op):
                self.ready(address(op, request))
                self.assertIn(self.point(0).split(" ←")[0], ("output[0]", "output[0,0]", "values[0]"))
                self.assertNotIn("no input cell", self.text(".told"))
        self.ready(address("find", {"keys": ["a", "b"], "queries": [["b", "c"]]}))
        self.assertEqual(self.point(1), "output[0,1] by queries[0,1]")
        with self.client() as client:
            self.assertEqual(client.request("PUT", "/v1/tensors/large", rows).status, 201)
        self.ready(address("gather", {"params": {"ref": "large"}, "indices": [2]}))
        self.assertEqual(self.point(0), "output[0,0] by indices[0]")
        with self.client() as client:
            client.request("DELETE", "/v1/tensors/large")

    def test_an_answer_is_not_explained_by_a_later_request(self):
        self.ready(address("gather", {"params": [[1, 2], [3, 4]], "indices": [1]}))
        self.assertEqual(self.hover(0), "output[0,0] ← params[1,0] by indices[0]")
        field = self.all(".tensor-input textarea")[1]
        field.clear()
        field.send_keys("[0]")
        self.click("body")
        self.assertEqual(self.point(1), "output[0,1]")
        self.assertEqual(self.lit(), [])
        self.click("#run")
        self.wait(lambda: self.text(".output td[data-index='0']") == "1")
        self.wait(lambda: self.hover(0) == "output[0,0] ← params[0,0] by indices[0]")

    def test_numbers_stay_as_they_are_written(self):
        self.ready("/#try?op=gather")
        fields = self.all(".tensor-input textarea")
        fields[0].clear()
        fields[0].send_keys("[1.0, -0.0, 2e3]")
        fields[1].clear()
        fields[1].send_keys("[1]", Keys.CONTROL, Keys.ENTER)
        self.one(".output h3 .type", "float32 [1]")
        self.assertEqual(self.text(".tensor-input .type"), "float32 [3]")
        self.browser.refresh()
        self.one(".output h3 .type", "float32 [1]")
        self.assertEqual(self.all(".tensor-input textarea")[0].get_attribute("value"), "[1.0, -0.0, 2e3]")

    def test_numbers_of_a_file_that_json_does_not_have(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "n.npy")
            with open(path, "wb") as file:
                file.write(npy("<f4", (3,), struct.pack("<3f", 1.5, float("nan"), float("-inf"))))
            self.ready("/#try?op=gather")
            self.type(".tensor-input input[type=file]", path)
            self.one(".tensor-input .type", "float32 [3]")
            fields = self.all(".tensor-input textarea")
            fields[1].clear()
            fields[1].send_keys("[1, 2]", Keys.CONTROL, Keys.ENTER)
            self.one(".output h3 .type", "float32 [2]")
            self.assertEqual([cell.text for cell in self.all(".output td")], ["NaN", "-Infinity"])

    def test_the_order_of_contractions_is_told(self):
        ones = [[1, 1], [1, 1]]
        self.ready(address("einsum", {"equation": "ij,jk,kl->il", "inputs": [ones, ones, ones]}))
        self.one(".tree li")
        self.assertEqual([(item.text.split("\n")[0].replace("\u2009", " "), depth) for item, depth in self.tree()], [
            ("step 2 ij,jl->il output · int32 [2,2] · 16 B · 16 FLOPs · sumprod", 0), ("inputs.0 int32 [2,2] · 16 B", 1),
            ("step 1 jk,kl->jl int32 [2,2] · 16 B · 16 FLOPs · sumprod", 1), ("inputs.1 int32 [2,2] · 16 B", 2), ("inputs.2 int32 [2,2] · 16 B", 2)])

    def tree(self):
        return [(item, len(item.find_elements("xpath", "ancestor::li"))) for item in self.all(".tree li")]

    def test_the_plan_has_the_dtype_of_the_inputs(self):
        numbers = {"dtype": "int64", "data": [[1, 2], [3, 4]]}
        self.ready(address("einsum", {"equation": "ij,jk->ik", "inputs": [numbers, numbers]}))
        self.assertEqual(self.text(".tree li").split("\n")[0].replace("\u2009", " "), "ij,jk->ik output · int64 [2,2] · 32 B · 16 FLOPs · sumprod")

    def test_labels_have_the_same_colour_everywhere(self):
        ones = [[1, 1], [1, 1]]
        self.ready(address("einsum", {"equation": "ij,jk,kl->il", "inputs": [ones, ones, ones]}))
        self.one(".tree li")
        colours = {(label.text, label.value_of_css_property("color")) for label in self.all(".lead .label, .tree .label")}
        self.assertEqual(sorted(text for text, _ in colours), ["i", "j", "k", "l"])

    def type_into(self, selector, text):
        field = self.one(selector)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.DELETE, text)
        return field

    def test_a_bad_index_is_marked(self):
        self.expected_messages = ("422",)
        self.ready("/#try?op=gather")
        self.type_into(".tensor-input:nth-child(1) textarea", "[[1, 2], [3, 4]]")
        fields = self.all(".tensor-input textarea")
        fields[1].clear()
        fields[1].send_keys("[0, 7]", Keys.CONTROL, Keys.ENTER)
        self.assertIn("indices[1] = 7 is not in [0, 2)", self.text(".error .sentence"))
        self.assertEqual(self.bad(), ["indices[1] = 7"])
        self.assertEqual(self.text(".tensor-input:has(td.bad) .problem-text:not(:empty)"), self.text(".error .sentence"))
        self.click(".error a", "INDEX_OUT_OF_BOUNDS")
        row = self.one("tr[aria-current=true]")
        self.assertIn("INDEX_OUT_OF_BOUNDS", row.text)
        self.assertTrue(self.browser.execute_script("const {top, bottom} = arguments[0].getBoundingClientRect(); return top >= 0 && bottom <= innerHeight", row))

    def bad(self):
        return [cell.get_attribute("title") for cell in self.all("td.bad")]

    def test_a_bad_cell_of_a_list_is_marked(self):
        self.expected_messages = ("422",)
        self.ready(address("dynamic_stitch", {"indices": [[0, 1], [2, -4]], "data": [[1, 2], [3, 4]]}))
        self.assertEqual(self.bad(), ["indices.1[1] = -4"])

    def test_the_value_that_a_pointer_names_is_marked(self):
        self.expected_messages = ("400",)
        self.ready(address("gather", {"params": [[1, 2], [3, "a"]], "indices": [0]}))
        self.assertEqual((self.bad(), self.text(".error mark")), (["params[1,1] = a"], '"a"'))
        self.one(".error", "at /params/1/1 in the request")
        self.ready(address("gather", {"params": {"dtype": "int8", "data": [1, 300]}, "indices": [0]}))
        self.assertEqual((self.bad(), self.text(".error mark")), (["params[1] = 300"], "300"))
        self.ready(address("concat", {"inputs": [[1, 2], [3, "a"]]}))
        self.assertEqual(self.bad(), ["inputs.1[1] = a"])

    def invalid(self):
        """what the labels of the controls say that are marked"""
        return self.browser.execute_script("return [...document.querySelectorAll('[aria-invalid=true]')].filter((node) => node.offsetParent).map((node) => node.labels[0].textContent)")

    def test_an_attribute_at_fault_is_marked(self):
        self.expected_messages = ("400", "422")
        self.ready(address("gather", {"params": [1, 2], "indices": [0], "axis": 7}))
        self.assertEqual(self.invalid(), ["axis"])
        self.one(".attributes .problem-text", "axis = 7 is not in [-1, 1)")
        self.type_into(".attributes [aria-invalid]", "0")
        self.assertEqual((self.invalid(), self.all(".attributes .problem-text:not(:empty)")), ([], []))
        self.ready(address("gather", {"params": [1, 2], "indices": [0], "axis": "a"}))
        self.assertEqual((self.invalid(), self.text(".error mark")), (["axis"], '"a"'))
        self.ready("/#try?op=gather")
        self.type_into(".tensor-input textarea", "[[1, 2], [3]]")
        self.assertEqual(self.invalid(), ["values (nested list)"])

    def test_a_bad_character_of_an_equation_is_marked(self):
        self.expected_messages = ("422",)
        self.ready(address("einsum", {"equation": "ij->!", "inputs": [[[1, 2]]]}))
        self.assertEqual((self.text(".lead mark"), self.invalid(), self.all(".lead .sentence")), ("!", ["equation"], []))
        self.one(".lead .problem-text", "equation has '!' at byte 4")
        self.type_into(".lead input", "ij->ik")
        self.one(".lead mark", "k")
        self.type_into(".lead input", "ij->ji")
        self.one(".lead .sentence")
        self.assertEqual((self.all(".lead mark"), self.invalid()), ([], []))

    def test_a_label_of_two_sizes_is_marked(self):
        self.expected_messages = ("422",)
        self.ready(address("einsum", {"equation": "ij,jk->ik", "inputs": [[[1, 2]], [[1, 2], [3, 4], [5, 6]]]}))
        self.assertEqual([mark.text for mark in self.all(".lead mark")], ["j", "j"])

    def test_values_that_are_no_list_are_told_before_they_are_sent(self):
        self.ready("/#try?op=gather")
        self.type_into(".tensor-input textarea", "[[1, 2], [3]]")
        self.one(".tensor-input .problem-text", "[1] has 1 elements; expected 2")
        self.type_into(".tensor-input textarea", "[[1, 2")
        self.one(".tensor-input .problem-text", "not JSON yet")

    def tensors(self):
        with self.client() as client:
            return [tensor["name"] for tensor in client.request("GET", "/v1/tensors").json()["tensors"]]

    def test_no_address_adds_members_to_a_request(self):
        """a link of another site must not store anything"""
        self.expected_messages = ("400", "422")
        before = self.tensors()
        injected = '0, "store": "victim"'
        for request in ({"params": [1, 2], "indices": [1], "axis": injected}, {"params": [1, 2], "indices": [1], "batch_dims": injected},
                        {"params": [1, 2], "indices": [1], "store": "victim"}, {"params": [1, 2], "indices": '[1], "store": "victim"'},
                        {"params": {"data": f"[1], {injected[3:]}"}, "indices": [1]}, {"params": {"keys": '[1]}, "store": "victim"'}, "indices": [1]}):
            with self.subTest(request):
                self.browser.get("about:blank")
                self.open(address("gather", request))
                self.one(".result > *")
                code = self.text(".code")
                self.assertNotIn('"store": "victim"', code)
                self.assertEqual(self.tensors(), before)

    def test_what_is_no_json_is_not_sent(self):
        self.ready("/#try?op=gather")
        self.type_into(".tensor-input textarea", '[1, 2], "store": "victim", "x": [0]').send_keys(Keys.CONTROL, Keys.ENTER)
        self.one(".result", "params is not JSON yet, so nothing was sent")
        self.assertNotIn("victim", self.tensors())

    def test_tensors_without_elements_are_not_written_out(self):
        self.ready(address("cast", {"x": {"dtype": "float32", "shape": [1000000000, 0], "data": []}, "dtype": "int32"}))
        self.one(".output h3 .type")

    def test_integers_of_64_bits_stay_whole(self):
        self.ready(address("gather", {"params": {"dtype": "int64", "data": [9007199254740993, -9223372036854775808]}, "indices": [1, 0]}))
        self.assertEqual(self.values(".output"), ["-9223372036854775808", "9007199254740993"])

    def test_the_code_is_always_the_request(self):
        self.ready("/#try?op=gather")
        self.assertIn("curl -s " + self.origin + "/v1/gather", self.text(".code"))
        self.type_into("input[placeholder='default: batch_dims']", "1")
        self.assertIn('"axis": 1', self.text(".code"))
        for name, part in (("Python", "urllib.request.Request("), ("JavaScript", "await fetch(")):
            self.click(".snippet button", name)
            self.assertIn(part, self.text(".code"))
        self.assertIn("axis", urllib.parse.unquote(self.browser.current_url))

    def test_the_code_of_each_language_prints_whole_integers(self):
        self.ready(address("gather", {"params": {"dtype": "int64", "data": [[9007199254740993, -9223372036854775808]]}, "indices": [0]}))
        for name, program in (("curl", ["sh", "-c"]), ("Python", [sys.executable, "-c"]), ("JavaScript", ["node", "--input-type=module", "-e"])):
            self.click(".snippet button", name)
            if not shutil.which(program[0]):
                continue
            printed = subprocess.run([*program, self.text(".code")], stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=True).stdout
            self.assertIn("[[9007199254740993,-9223372036854775808]]", printed.replace(" ", ""), name)

    def test_the_address_holds_the_request(self):
        self.ready(address("gather", {"params": [10, 20], "indices": [1]}))
        self.assertEqual(self.values(".output"), ["20"])
        copied = self.browser.current_url
        self.browser.get("about:blank")
        self.ready(copied[len(self.origin):])
        self.assertEqual(self.values(".output"), ["20"])

    def test_a_table_and_its_keys_can_be_chosen(self):
        with self.client() as client:
            client.request("PUT", "/v1/tensors/chosen", {"tensor": [[1, 2], [3, 4]], "keys": ["a", "b"]})
            self.addCleanup(client.request, "DELETE", "/v1/tensors/chosen")
            self.ready(address("gather", {"params": {"ref": "chosen"}, "indices": {"keys": ["b"]}}))
            self.assertEqual(self.values(".output"), ["3", "4"])
            self.click(".tensor-input input[list]")
            self.wait(lambda: "chosen" in [option.get_attribute("value") for option in self.all("datalist option")])
            self.assertEqual(client.request("DELETE", "/v1/tensors/chosen").status, 204)

    def test_cells_of_tables_are_lit_as_well(self):
        self.put("films", {"tensor": [[1, 2], [3, 4], [5, 6]], "keys": ["Alien", "Dune", "Brazil"]})
        self.ready(address("gather", {"params": {"ref": "films"}, "indices": [2, 0]}))
        self.assertEqual(self.hover(1), "output[0,1] ← params[2,1] by indices[0]")
        self.assertEqual(self.lit(), ["params[2,1] = 6", "indices[0] = 2"])
        self.ready(address("gather", {"params": {"ref": "films"}, "indices": {"keys": ["Dune"]}}))
        self.assertEqual(self.hover(0), "output[0,0] ← params[1,0] by indices[0]")
        self.ready(address("lookup", {"params": {"ref": "films"}, "queries": ["Brazil"]}))
        self.assertEqual(self.hover(0), "output[0,0] ← params[2,0] by queries[0]")
        self.assertEqual(self.lit(), ["params[2,0] = 5", "queries[0] = Brazil"])
        self.ready(address("einsum", {"equation": "ij->i", "inputs": [{"ref": "films"}]}))
        self.assertEqual(self.told_by_equation(), "output[i] = Σj inputs.0[i,j]")
        self.assertEqual(self.hover(1), "output[1] ← inputs.0[1,:]")

    def test_a_request_in_base64_becomes_values(self):
        self.ready(address("gather", {"params": {"dtype": "float32", "shape": [2, 1], "base64": base64.b64encode(struct.pack("<ff", 1.5, 2)).decode()}, "indices": [1]}))
        self.assertEqual(self.values(".output"), ["2"])
        self.assertEqual(self.request()["params"], {"dtype": "float32", "data": [[1.5], [2]]})

    def put(self, name, body):
        with self.client() as client:
            self.assertEqual(client.request("PUT", f"/v1/tensors/{name}", body).status, 201)
        self.addCleanup(self.delete, name)

    def delete(self, name):
        with self.client() as client:
            client.request("DELETE", f"/v1/tensors/{name}")

    def options(self):
        return [option.text.split("\n")[0] for option in self.all(".options li") if option.is_displayed()]

    def request(self):
        return json.loads(urllib.parse.parse_qs(self.browser.current_url.split("?", 1)[1])["request"][0])

    def test_keys_of_a_table_are_found_by_how_they_begin(self):
        self.put("films", {"tensor": [[1], [2], [3], [4]], "keys": ["Alien", "Dune", "Aliens", "Dune: Part Two"]})
        self.ready(address("gather", {"params": {"ref": "films"}, "indices": [0]}))
        field = self.one(".key-search input")
        field.send_keys("Ali")
        self.wait(lambda: self.options() == ["Alien", "Aliens"])
        self.click(".options li", "Aliens")
        self.assertEqual(self.request()["indices"], {"keys": ["Aliens"]})
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys("Dune")
        self.wait(lambda: self.options() == ["Dune", "Dune: Part Two"])
        field.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
        self.assertEqual(self.request()["indices"], {"keys": ["Aliens", "Dune: Part Two"]})
        field.send_keys(Keys.CONTROL, Keys.ENTER)
        self.wait(lambda: self.values(".output") == ["3", "4"])
        self.click(".options li[aria-selected=true]")
        self.assertEqual(self.request()["indices"], {"keys": ["Aliens"]})

    def test_a_whole_key_is_found_in_a_large_table(self):
        rows = 300_000
        self.put("large", {"tensor": {"dtype": "uint8", "shape": [rows], "base64": base64.b64encode(bytes(rows)).decode()},
                           "keys": {"dtype": "int64", "shape": [rows], "data": [9007199254740993 + 7 * i for i in range(rows)]}})
        self.ready(address("gather", {"params": {"ref": "large"}, "indices": [0]}))
        last = str(9007199254740993 + 7 * (rows - 1))
        field = self.one(".key-search input")
        field.send_keys(last)
        self.wait(lambda: self.options() == [last])
        self.one(".key-search .help", "131 072 of 300 000 keys")
        field.send_keys(Keys.ENTER)
        self.assertIn('{"keys": [' + last + "]}", self.text(".code"))
        self.click(".key-search button", "Search more rows")
        self.one(".key-search .help", "262 144 of 300 000 keys")

    def test_the_form_of_lookup_finds_keys_as_well(self):
        self.put("films", {"tensor": [[1], [2]], "keys": ["Alien", "Dune"]})
        self.expected_messages = ("422",)
        self.ready(address("lookup", {"params": {"ref": "films"}, "queries": []}))
        self.type(".key-search:not([hidden]) input", "D")
        self.wait(lambda: self.options() == ["Dune"])
        self.click(".options li")
        self.click("#run")
        self.wait(lambda: self.values(".output") == ["2", "true"])

    def test_the_keys_of_a_version_are_found_as_well(self):
        self.put("films@7", {"tensor": [[1], [2], [3]], "keys": ["Alien", "Dune", "Brazil"]})
        self.ready(address("gather", {"params": {"ref": "films@7"}, "indices": [0]}))
        self.type(".key-search input", "Bra")
        self.wait(lambda: self.options() == ["Brazil"])
        self.ready(address("lookup", {"params": {"ref": "films@7"}, "queries": ["Brazil"]}))
        self.assertIn("output[0,0] ← params[2,0]", self.hover(0))

    def test_a_dropped_file_becomes_the_input(self):
        header = json.dumps({"w": {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]}}).encode()
        content = struct.pack("<Q", len(header)) + header + struct.pack("<ee", 1.5, -2)
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(content)
            file.flush()
            self.ready(address("gather", {"params": [1, 2], "indices": [1, 0]}))
            self.type(".tensor-input input[type=file]", os.path.realpath(file.name))
            self.one(".tensor-input .type", "float16 [2]")
            self.click("#run")
            self.one(".output .type", "float16")

    def test_a_tensor_of_a_file_with_several_is_chosen(self):
        entries = {"bias": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]}, "odd": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [8, 9]},
                   "weight": {"dtype": "F32", "shape": [1, 2], "data_offsets": [12, 20]}}
        header = json.dumps(entries).encode()
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(struct.pack("<Q", len(header)) + header + struct.pack("<ii", 7, 8) + bytes(4) + struct.pack("<ff", 1.5, 2.5))
            file.flush()
            self.ready(address("gather", {"params": [1, 2], "indices": [0]}))
            self.type(".tensor-input input[type=file]", os.path.realpath(file.name))
            self.one(".tensor-input .type", "int32 [2]")
            choice = next(select for select in self.all(".tensor-input select") if select.text.split() == ["bias", "odd", "weight"])
            Select(choice).select_by_visible_text("weight")
            self.one(".tensor-input .type", "float32 [1,2]")
            self.assertIn("[[1.5, 2.5]]", self.text(".code"))
            Select(choice).select_by_visible_text("odd")
            self.notice("odd has the dtype F8_E4M3", "error")

    def paste(self, field, text):
        self.browser.execute_script("""
            const data = new DataTransfer();
            data.setData("text", arguments[1]);
            arguments[0].dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));""", field, text)

    def test_a_large_text_is_pasted_between_what_was_typed(self):
        self.ready(address("gather", {"params": [1, 2], "indices": [0]}))
        field = self.all(".tensor-input textarea")[0]
        self.browser.execute_script("arguments[0].value = '[5, ]'; arguments[0].setSelectionRange(4, 4)", field)
        self.paste(field, ",".join(["7"] * 60000))
        self.one(".tensor-input .type", "int32 [60001]")
        self.click("#run")
        self.wait(lambda: self.values(".output") == ["5"])

    def test_chosen_keys_give_back_what_they_replaced(self):
        self.put("films", {"tensor": [[1], [2]], "keys": ["Alien", "Dune"]})
        self.ready(address("gather", {"params": {"ref": "films"}, "indices": [1, 0, 1]}))
        self.type(".key-search input", "Du")
        self.wait(lambda: self.options() == ["Dune"])
        self.click(".options li", "Dune")
        self.assertEqual(self.request()["indices"], {"keys": ["Dune"]})
        self.notice("keys replace the previous contents")
        self.click(".options li", "Dune")
        self.assertEqual(self.request()["indices"], [1, 0, 1])

    def test_the_last_of_two_files_is_the_input(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(os.path.realpath(folder), name) for name in ("large.npy", "small.npy")]
            for path, n in zip(paths, (2_000_000, 3)):
                with open(path, "wb") as out:
                    out.write(npy("float32", [n], bytes(4 * n)))
            self.ready(address("gather", {"params": [1, 2], "indices": [0]}))
            field = self.one(".tensor-input input[type=file]")
            field.send_keys(paths[0])
            field.send_keys(paths[1])
            self.one(".tensor-input .type", "float32 [3]")
            self.browser.execute_async_script("const done = arguments[0]; setTimeout(done, 1500)")
            self.one(".tensor-input .type", "float32 [3]")

    def test_a_large_answer_is_a_picture(self):
        self.ready(address("gather", {"params": list(range(150)), "indices": {"dtype": "int32", "shape": [150, 150], "data": [i % 150 for i in range(22500)]}}))
        self.assertIn("150 rows of 150", self.attribute("aria-label", ".output canvas"))
