"""Try: the form of each op, its example, what its answer came from, and errors at their places."""
import json, os, struct, tempfile, urllib.parse

from selenium.webdriver import ActionChains, Keys

from browser import BrowserTest


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
                self.assertIn(f"/v1/{op}", self.one(".code").text)

    def hover(self, index, output=0):
        cell = self.all(".output")[output].find_element("css selector", f'td[data-index="{index}"]')
        ActionChains(self.browser).move_to_element(cell).perform()
        return self.one(".told", "←").text

    def test_an_output_cell_shows_where_it_came_from(self):
        self.ready(address("gather", {"params": [[1, 2], [3, 4], [5, 6]], "indices": [2, 0]}))
        self.assertEqual(self.hover(3), "output[1,1] ← params[0,1]")
        self.assertEqual(self.lit(), ["params[0,1] = 2"])
        self.ready(address("gather", {"params": ["a", "b"], "indices": [7, 1], "bounds": "zero"}))
        self.assertEqual(self.hover(0), "output[0] ← no cell of an input")
        self.assertEqual(self.hover(1), "output[1] ← params[1]")
        self.ready(address("dynamic_stitch", {"indices": [[0, 2], [1]], "data": [[1, 2], [3]]}))
        self.assertEqual(self.hover(1), "output[1] ← data.1[0]")

    def test_sums_show_all_their_terms(self):
        self.ready(address("einsum", {"equation": "ij,jk->ik", "inputs": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]}))
        self.assertEqual(self.hover(2), "output[1,0] ← inputs.0[1,0], inputs.0[1,1], inputs.1[0,0], inputs.1[1,0]")
        self.assertEqual(self.one(".extra .sentence").text, "output[i,k] = Σ_j inputs.0[i,j] · inputs.1[j,k]")
        self.ready(address("embedding_bag", {"params": [[1, 2], [3, 4], [5, 6]], "indices": [2, 0, 1], "offsets": [0, 2]}))
        self.assertEqual(self.hover(1), "output[0,1] ← params[2,1], indices[0], params[0,1], indices[1]")

    def test_the_order_of_contractions_is_told(self):
        ones = [[1, 1], [1, 1]]
        self.ready(address("einsum", {"equation": "ij,jk,kl->il", "inputs": [ones, ones, ones]}))
        self.assertEqual(len(self.one(".steps").find_elements("css selector", "tbody tr")), 2)

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
        self.assertIn("indices[1] = 7 is not in [0, 2)", self.one(".error .sentence").text)
        self.assertEqual([cell.get_attribute("title") for cell in self.all("td.bad")], ["indices[1] = 7"])
        link = self.one(".error a")
        self.assertEqual((link.text, link.get_attribute("href")), ("INDEX_OUT_OF_BOUNDS", self.origin + "/problems/index-out-of-bounds"))

    def test_a_bad_character_of_an_equation_is_marked(self):
        self.expected_messages = ("422",)
        self.ready(address("einsum", {"equation": "ij->!", "inputs": [[[1, 2]]]}))
        self.assertEqual(self.one(".error mark").text, "!")

    def test_values_that_are_no_list_are_told_before_they_are_sent(self):
        self.ready("/#try?op=gather")
        self.type_into(".tensor-input textarea", "[[1, 2], [3]]")
        self.one(".tensor-input .problem-text", "[1] has 1 elements; 2 are expected")
        self.type_into(".tensor-input textarea", "[[1, 2")
        self.one(".tensor-input .problem-text", "no JSON yet")

    def test_integers_of_64_bits_stay_whole(self):
        self.ready(address("gather", {"params": {"dtype": "int64", "data": [9007199254740993, -9223372036854775808]}, "indices": [1, 0]}))
        self.assertEqual(self.values(".output"), ["-9223372036854775808", "9007199254740993"])

    def test_the_code_is_always_the_request(self):
        self.ready("/#try?op=gather")
        self.assertIn("curl -s " + self.origin + "/v1/gather", self.one(".code").text)
        self.type_into("input[placeholder='default: batch_dims']", "1")
        self.assertIn('"axis": 1', self.one(".code").text)
        for name, part in (("Python", "urllib.request.Request("), ("JavaScript", "await fetch(")):
            self.one(".snippet button", name).click()
            self.assertIn(part, self.one(".code").text)
        self.assertIn("axis", urllib.parse.unquote(self.browser.current_url))

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
            self.one(".tensor-input input[list]").click()
            self.wait(lambda: "chosen" in [option.get_attribute("value") for option in self.all("datalist option")])
            self.assertEqual(client.request("DELETE", "/v1/tensors/chosen").status, 204)

    def test_a_dropped_file_becomes_the_input(self):
        header = json.dumps({"w": {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]}}).encode()
        content = struct.pack("<Q", len(header)) + header + struct.pack("<ee", 1.5, -2)
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(content)
            file.flush()
            self.ready(address("gather", {"params": [1, 2], "indices": [1, 0]}))
            self.one(".tensor-input input[type=file]").send_keys(os.path.realpath(file.name))
            self.one(".tensor-input .type", "float16 [2]")
            self.one("#run").click()
            self.one(".output .type", "float16")

    def test_a_large_answer_is_a_picture(self):
        self.ready(address("gather", {"params": list(range(150)), "indices": {"dtype": "int32", "shape": [150, 150], "data": [i % 150 for i in range(22500)]}}))
        self.assertIn("150 rows of 150", self.one(".output canvas").get_attribute("aria-label"))
