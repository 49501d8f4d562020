"""Tables: the list, what a table's values are like, its rows, rows nearest to a row or a vector, uploads, aliases, deletion; and the page
without changes."""
import os, re, tempfile
from urllib.parse import quote

from selenium.webdriver import Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from browser import BrowserTest
from daemon import npy, pack, temporary_folder


class TablesTest(BrowserTest):
    def put(self, name, body, content_type=None):
        with self.client() as client:
            self.assertIn(client.request("PUT", f"/v1/tensors/{name}", body, {"Content-Type": content_type} if content_type else {}).status, (200, 201))

    def names(self):
        with self.client() as client:
            return [tensor["name"] for tensor in client.request("GET", "/v1/tensors").json()["tensors"]]

    def remove_all(self):
        with self.client() as client:
            aliases = client.request("GET", "/v1/aliases").json()["aliases"]
            if aliases:
                client.request("POST", "/v1/aliases", {"set": {name: None for name in aliases}})
            for name in self.names():
                client.request("DELETE", "/v1/tensors/" + quote(name))

    def setUp(self):
        super().setUp()
        self.addCleanup(self.remove_all)

    def show(self, name=None):
        self.browser.get("about:blank")
        self.open("/#tables" + (f"?name={name}" if name else ""))
        self.one(".listing")

    def file_of(self, name, values):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, name)
        with open(path, "wb") as file:
            file.write(npy("float32", (len(values),), pack("float32", values)))
        return path


class Tables(TablesTest):
    def rows_shown(self, text, by_key=False):
        box = self.all(".detail .check input")
        if box and box[0].is_selected() != by_key:
            box[0].click()
        field = self.one(".detail form input[type=text]")
        field.clear()
        field.send_keys(text)
        self.click(".detail form button", "Show")

    def test_rows_have_their_own_numbers_or_keys(self):
        self.put("films", {"tensor": [[i, i] for i in range(20)], "keys": [f"k{i}" for i in range(20)]})
        self.show("films")
        self.rows_shown("12, 3-4")
        self.wait(lambda: [node.text for node in self.all(".rows tbody th")] == ["12", "3", "4"])
        self.assertEqual(self.attribute("title", ".rows td[data-index='1']"), "films[12,1] = 12")
        self.rows_shown("k7", by_key=True)
        self.wait(lambda: [node.text for node in self.all(".rows tbody th")] == ["k7"])

    def test_rows_that_are_none_are_told(self):
        self.put("films", [[1], [2]])
        self.show("films")
        for text, told in (("-1", "neither a row number"), ("", "neither a row number"), ("1,", "neither a row number"), ("2", "there is no row 2")):
            self.rows_shown("0")
            self.one(".rows td")
            self.rows_shown(text)
            self.one(".rows .problem-text", told)

    def test_a_table_is_found_and_described(self):
        self.put("films", {"tensor": [[1, 2], [3, -4.5]], "keys": ["Alien", "Dune"]})
        self.put("other", [1])
        self.show()
        self.type("input[type=search]", "FIL")
        self.wait(lambda: len(self.all(".listing tbody tr")) == 1)
        self.click(".listing button.link", "films")
        self.one(".detail h2", "films")
        self.one(".detail .help", "float32 [2,2]")
        facts = dict(zip([node.text for node in self.all(".facts dt")], [node.text for node in self.all(".facts dd")])) if self.one(".facts") else {}
        self.assertEqual((facts["minimum"], facts["maximum"], facts["mean"], facts["NaN"]), ("-4.5", "3", "0.375", "0"))
        self.assertIn("means by block (2 by 2 blocks)", self.attribute("aria-label", ".strip"))

    def test_flags_and_texts_are_described_as_such(self):
        for name, values, expected in (("flags", [True, False, True], {"elements": "3", "true": "2"}),
                                       ("texts", ["a", "bcd"], {"elements": "2", "bytes of text": "4", "shortest": "1", "longest": "3"})):
            with self.subTest(name):
                self.put(name, values)
                self.show(name)
                self.one(".facts")
                self.assertEqual(dict(zip([node.text for node in self.all(".facts dt")], [node.text for node in self.all(".facts dd")])), expected)

    def test_rows_are_read_by_number_and_by_key(self):
        self.put("films", {"tensor": [[1, 2], [3, 4], [5, 6]], "keys": ["Alien", "Dune", "Brazil"]})
        self.show("films")
        self.wait(lambda: self.values(".rows") == ["1", "2", "3", "4", "5", "6"])
        field = self.one(".detail form input[type=text]")
        field.clear()
        field.send_keys("2, 0-1")
        self.click(".detail form button", "Show")
        self.wait(lambda: self.values(".rows") == ["5", "6", "1", "2", "3", "4"])
        self.click(".detail input[type=checkbox]")
        field.clear()
        field.send_keys("Dune\n")
        self.wait(lambda: self.values(".rows") == ["3", "4"])
        self.expected_messages = ("422",)
        field.send_keys(" 2\n")
        self.one(".rows .problem-text", "Dune 2")

    def test_keys_are_searched(self):
        self.put("films", {"tensor": [[1], [2], [3]], "keys": ["Alien", "Dune", "Aliens"]})
        self.show("films")
        self.type(".detail .key-search input", "Al")
        self.wait(lambda: [option.text.split("\n")[0] for option in self.all(".options li")] == ["Alien", "Aliens"])
        self.click(".options li", "Aliens")
        self.wait(lambda: self.values(".rows") == ["3"])
        self.click(".options li", "Alien")
        self.wait(lambda: self.values(".rows") == ["3", "1"])
        self.click(".options li", "Aliens")
        self.wait(lambda: self.values(".rows") == ["1"])

    def test_a_range_of_too_many_rows_is_refused(self):
        self.put("long", {"dtype": "uint8", "shape": [2000], "data": [0] * 2000})
        self.show("long")
        field = self.one(".detail form input[type=text]")
        field.clear()
        field.send_keys("0-9999999999\n")
        self.one(".rows .problem-text", "2 000 rows requested; at most 1 000 can be shown")

    def test_two_versions_are_compared(self):
        self.put("t@1", [[1, 2], [3, 4]])
        self.put("t@2", [[1, 2], [3, 5]])
        self.show("t@1")
        self.type(".detail input[list]", "t@2\n")
        self.one(".rows .help", "1 of 4 cells differ")
        self.assertEqual(self.lit(), ["t@2[1,1] = 5"])

    def test_a_file_is_uploaded(self):
        with tempfile.NamedTemporaryFile(suffix=".npy", prefix="up load") as file:
            file.write(npy("float32", (2, 2), pack("float32", [1, 2, 3, 4])))
            file.flush()
            self.show()
            self.type(".upload input[type=file]", os.path.realpath(file.name))
            name = self.one(".upload input[type=text]")
            self.assertRegex(name.get_attribute("value"), "^up_load")
            name.clear()
            name.send_keys("uploaded")
            self.click(".upload button")
            self.one(".detail h2", "uploaded")
            self.assertEqual(self.names(), ["uploaded"])
            self.expected_messages = ("422",)
            self.type(".upload input[type=file]", os.path.realpath(file.name))
            name.clear()
            name.send_keys("a/b")
            self.click(".upload button")
            self.one(".upload .problem-text")

    def test_a_file_suggests_a_name_that_tensord_takes(self):
        with tempfile.NamedTemporaryFile(suffix=".npy", prefix="cafe\u0301 \u6771\u4eac\u20ac") as file:
            file.write(npy("float32", (2, 2), pack("float32", [1, 2, 3, 4])))
            file.flush()
            self.show()
            self.type(".upload input[type=file]", os.path.realpath(file.name))
            name = self.one(".upload input[type=text]").get_attribute("value")
            self.assertRegex(name, "^caf\u00e9_\u6771\u4eac_")
            self.click(".upload button")
            self.one(".detail h2", name)
            self.assertEqual(self.names(), [name])
            self.rows_shown("1")

    def test_rows_are_a_picture_too_whose_lens_has_their_numbers(self):
        self.put("films", [[i, i + 0.5] for i in range(20)])
        self.show("films")
        self.rows_shown("12, 3-4")
        self.click(".forms button", "heat map")
        picture = self.one(".rows canvas.heatmap")
        picture.send_keys(Keys.ARROW_RIGHT)
        self.one(".rows .lens", "films[12,1] = 12.5")
        self.click(".forms button", "table")
        self.one(".rows td")

    def test_the_address_has_all_that_is_shown(self):
        self.put("t@1", {"tensor": [[1, 2], [3, 4], [5, 6]], "keys": ["a", "b", "c"]})
        self.put("t@2", {"tensor": [[1, 2], [3, 4], [5, 7]], "keys": ["a", "b", "c"]})
        self.show("t@1")
        self.type(".detail input[list]", "t@2")
        self.rows_shown('["c", "a"]', by_key=True)
        self.one(".rows .help", "1 of 4 cells differ")
        address = self.browser.current_url
        self.browser.get("about:blank")
        self.browser.get(address)
        self.one(".rows .help", "1 of 4 cells differ")
        self.assertEqual([node.text for node in self.all(".rows tbody th")], ["c", "a", "c", "a"])
        self.click(".forms button", "heat map")
        self.wait(lambda: len(self.all(".rows canvas")) == 2)
        self.browser.refresh()
        self.wait(lambda: len(self.all(".rows canvas")) == 2)
        self.click(".listing button.link", "t@2")  # another table has rows of its own
        self.wait(lambda: len(self.values(".rows")) == 6)
        self.browser.back()
        self.one(".detail h2", "t@1")
        self.wait(lambda: len(self.all(".rows canvas")) == 2)

    def test_an_alias_in_the_address_is_its_version_and_an_unknown_name_is_told(self):
        self.put("t@1", [1])
        with self.client() as client:
            client.request("POST", "/v1/aliases", {"set": {"latest": "t@1"}})
        self.show("latest")
        self.one(".detail h2", "t@1")
        self.show("gone")
        self.one(".detail .problem-text", "There is no table gone.")

    def test_what_is_averaged_of_strings_is_said(self):
        self.put("words", ["a", "bcd"])
        self.show("words")
        self.one(".lens", "mean lengths in bytes by block, 1 to 3")

    def values_of(self, name):
        with self.client() as client:
            return client.request("GET", f"/v1/tensors/{name}?response=flat").json()["data"]

    def test_a_second_file_does_not_take_the_name_of_the_first(self):
        self.show()
        file, name = self.one(".upload input[type=file]"), self.one(".upload input[type=text]")
        file.send_keys(self.file_of("aa.npy", [1, 2]))
        file.send_keys(self.file_of("bb.npy", [3]))
        self.assertEqual(name.get_attribute("value"), "bb")
        self.click(".upload button")
        self.one(".detail h2", "bb")
        self.assertEqual(name.get_attribute("value"), "")
        file.send_keys(self.file_of("aa.npy", [1, 2]))
        self.click(".upload button")
        self.one(".detail h2", "aa")
        self.assertEqual(self.names(), ["aa", "bb"])
        name.send_keys("mine")
        file.send_keys(self.file_of("cc.npy", [4]))
        self.assertEqual(name.get_attribute("value"), "mine")  # was typed

    def confirm(self, title, text):
        dialog = self.one("dialog[open]", title)
        field, sure = dialog.find_element(By.CSS_SELECTOR, "input"), dialog.find_element(By.CSS_SELECTOR, "button[type=submit]")
        self.assertFalse(sure.is_enabled())
        field.send_keys(text)
        self.assertTrue(sure.is_enabled())
        sure.click()

    def test_an_upload_replaces_a_tensor_once_its_name_is_typed(self):
        self.expected_messages = ("412",)
        self.put("precious", [1, 2, 3])
        self.show()
        self.type(".upload input[type=file]", self.file_of("precious.npy", [9]))
        self.click(".upload button")
        self.one("dialog[open]", "Replace precious?")
        self.click("dialog[open] button", "Keep it")
        self.one(".upload [role=status]", "precious is unchanged")
        self.assertEqual(self.values_of("precious"), [1, 2, 3])
        self.click(".upload button")
        self.one("dialog[open]", "Replace precious?")
        self.put("precious", [5, 6])  # meanwhile: what was not seen is not replaced
        self.confirm("Replace precious?", "precious")
        self.one("dialog[open]", "changed in the meantime")
        self.assertEqual(self.values_of("precious"), [5, 6])
        self.confirm("changed in the meantime", "precious")
        self.one(".upload [role=status]", "precious: float32 [1]")
        self.assertEqual(self.values_of("precious"), [9])

    def test_an_alias_is_removed_once_its_name_is_typed(self):
        self.put("t@1", [1])
        with self.client() as client:
            client.request("POST", "/v1/aliases", {"set": {"latest": "t@1"}})
            self.show()
            self.click(".aliases button", "Remove")
            self.one("dialog[open]", "Remove latest?")
            self.click("dialog[open] button", "Keep it")
            self.wait(lambda: not self.all("dialog[open]"))
            self.assertEqual(client.request("GET", "/v1/aliases").json()["aliases"], {"latest": "t@1"})
            self.click(".aliases button", "Remove")
            self.confirm("Remove latest?", "latest")
            self.notice("latest → nothing")
            self.assertEqual(client.request("GET", "/v1/aliases").json()["aliases"], {})

    def test_a_version_shows_its_alias_and_its_change_number(self):
        self.put("t@1", [1])
        with self.client() as client:
            client.request("POST", "/v1/aliases", {"set": {"latest": "t@1"}})
            version = client.request("GET", "/v1/tensors").json()["tensors"][0]["version"]
        self.show("t@1")
        self.one(".listing tbody tr .badge", "alias latest")
        self.one(".detail .help", f"change {version}")
        self.assertEqual(self.one(".listing td[data-head=change]").get_attribute("textContent"), str(version))

    def test_all_of_a_row_is_seen_at_every_width(self):
        self.put("a" * 60 + "@1", [1])
        with self.client() as client:
            client.request("POST", "/v1/aliases", {"set": {"b" * 60: "a" * 60 + "@1"}})
        self.addCleanup(self.browser.execute_cdp_cmd, "Emulation.clearDeviceMetricsOverride", {})
        for width in (360, 768, 1024, 1400):
            with self.subTest(width=width):
                self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
                self.show()
                self.assertEqual(self.browser.execute_script("""
                    const cut = [];
                    for (const node of document.querySelectorAll(".listing td, .listing button, .listing select"))
                        for (let box = node.parentElement; box; box = box.parentElement)
                            if (node.getBoundingClientRect().right > box.getBoundingClientRect().right + 1 && getComputedStyle(box).display !== "contents") cut.push(node.outerHTML.slice(0, 80));
                    return cut;"""), [])

    def test_an_alias_is_flipped_under_the_condition_that_it_has_not_changed(self):
        self.put("t@1", [1])
        self.put("t@2", [2])
        with self.client() as client:
            client.request("POST", "/v1/aliases", {"set": {"latest": "t@1"}})
            self.show()
            select = self.one(".aliases select")
            select.send_keys("t@2")
            self.click(".aliases button", "Flip")
            self.notice("latest → t@2")
            self.assertEqual(client.request("GET", "/v1/aliases").json()["aliases"], {"latest": "t@2"})
            self.wait(lambda: self.text(".aliases tbody tr").startswith("latest t@2"))
            client.request("POST", "/v1/aliases", {"set": {"latest": "t@1"}})
            self.expected_messages = ("412",)
            self.click(".aliases button", "Remove")
            self.confirm("Remove latest?", "latest")
            self.one(".aliases .problem-text", "does not name")
            self.assertEqual(client.request("GET", "/v1/aliases").json()["aliases"], {"latest": "t@1"})

    def test_the_aliases_of_the_parts_of_a_table_are_flipped_with_it(self):
        parts = ("", ".scale", ".zero_point")
        for part in parts:
            for version in (1, 2):
                self.put(f"q{part}@{version}", [version])
        with self.client() as client:
            client.request("POST", "/v1/aliases", {"set": {f"q{part}": f"q{part}@1" for part in parts}})
            self.show()
            self.one(".aliases select[aria-label='version of q']").send_keys("q@2")
            self.click(".aliases button[aria-label='Flip q']")
            self.notice("q → q@2")
            self.assertEqual(client.request("GET", "/v1/aliases").json()["aliases"], {f"q{part}": f"q{part}@2" for part in parts})

    def test_a_table_is_deleted_once_its_name_is_typed(self):
        self.put("precious", [1])
        self.show("precious")
        self.click(".listing button.danger")
        dialog = self.one("dialog[open]")
        sure = dialog.find_element(By.CSS_SELECTOR, "button[type=submit]")
        field = dialog.find_element(By.CSS_SELECTOR, "input")
        field.send_keys("preciou")
        self.assertFalse(sure.is_enabled())
        field.send_keys("s")
        self.assertTrue(sure.is_enabled())
        sure.click()
        self.notice("precious was deleted")
        self.assertEqual(self.names(), [])


class Nearest(TablesTest):
    """the rows nearest to a row or a vector"""
    FILMS = {"tensor": [[0.0, 0.0], [3.0, 4.0], [6.0, 8.0], [0.0, 1.0]], "keys": ["Alien", "Aliens", "Dune", "Brazil"]}

    def choose(self, label, value):
        field = next(field for field in self.all(".nearest .field") if field.find_element(By.TAG_NAME, "label").text == label)
        Select(field.find_element(By.TAG_NAME, "select")).select_by_visible_text(value)

    def open_table(self, name):
        self.show(name)
        self.one(".nearest form")

    def search(self, text, metric="l2"):
        self.choose("metric", metric)
        field = self.one(".nearest input[type=text]")
        field.clear()
        field.send_keys(text + "\n")

    def found(self, *lines):
        """waits until the list has these lines, each with the key if there are keys, the row number and the score"""
        self.wait(lambda: [tuple(cell.text for cell in line.find_elements(By.TAG_NAME, "td")[:-1]) for line in self.all(".nearest tbody tr")] == list(lines),
                  f"found {lines}")

    def bars(self):
        return [(part.get_attribute("class"), part.get_attribute("style")) for part in self.all(".nearest .score-bar i")]

    def test_a_search_from_a_key_and_from_the_rows_it_finds(self):
        self.put("films", self.FILMS)
        self.open_table("films")
        self.search("Alien")
        self.found(("Brazil", "3", "1"), ("Aliens", "1", "5"), ("Dune", "2", "10"))
        self.one(".nearest [role=status]", '3 rows nearest to "Alien" by l2, the nearest first.')
        self.assertEqual(self.bars(), [("", f"margin-left: 0%; width: {share}%;") for share in (10, 50, 100)])
        self.click(".nearest tbody button", "Aliens")
        self.found(("Brazil", "3", "4.2426405"), ("Alien", "0", "5"), ("Dune", "2", "5"))
        self.one(".nearest [role=status]", '3 rows nearest to "Aliens" by l2')
        self.assertEqual(self.attribute("value", ".nearest input[type=text]"), "Aliens")
        self.assertEqual(self.browser.switch_to.active_element.text, "Brazil")  # the list has been replaced

    def test_the_text_of_a_key_is_taken_as_it_is(self):
        self.put("codes", {"tensor": [[0.0], [1.0], [3.0]], "keys": ["7", " 7", "07"]})
        self.open_table("codes")
        self.search("07")
        self.found(("7", "1", "2"), ("7", "0", "3"))
        self.click(".nearest tbody tr:first-child button")
        self.found(("7", "0", "1"), ("07", "2", "2"))
        self.search("7")
        self.found(("7", "1", "1"), ("07", "2", "3"))
        self.search(" 7")
        self.found(("7", "0", "1"), ("07", "2", "2"))

    def test_an_integer_key_keeps_all_its_digits(self):
        for dtype, first in (("int64", 2**53), ("int64", -2**63), ("uint64", 2**64 - 4)):
            with self.subTest(dtype, first=first):
                keys = [first, first + 1, first + 3]
                self.put("people", {"tensor": [[0.0], [10.0], [11.0]], "keys": {"dtype": dtype, "shape": [3], "data": keys}})
                self.open_table("people")
                self.search(str(keys[1]))
                self.found((str(keys[2]), "2", "1"), (str(keys[0]), "0", "10"))
                self.click(".nearest tbody button", str(keys[2]))
                self.found((str(keys[1]), "1", "1"), (str(keys[0]), "0", "11"))
                self.assertEqual(self.attribute("value", ".nearest input[type=text]"), str(keys[2]))
                self.browser.refresh()
                self.found((str(keys[1]), "1", "1"), (str(keys[0]), "0", "11"))

    def test_a_table_without_keys_is_searched_by_row_number(self):
        self.put("plain", [[1.0], [2.0], [-2.0], [5.0]])
        self.open_table("plain")
        self.search("0", "dot")
        self.found(("3", "5"), ("1", "2"), ("2", "-2"))
        self.one(".nearest [role=status]", "nearest to row 0 by dot")
        starts, lengths = zip(*[[float(part) for part in re.findall(r"([\d.]+)%", style)] for _, style in self.bars()])
        self.assertEqual([kind for kind, _ in self.bars()], ["", "", "below"])
        for given, expected in ((starts, (200 / 7, 200 / 7, 0)), (lengths, (500 / 7, 200 / 7, 200 / 7))):
            for one, other in zip(given, expected):
                self.assertAlmostEqual(one, other, 3)
        self.click(".nearest tbody button", "3")
        self.found(("1", "10"), ("0", "5"), ("2", "-10"))
        self.assertEqual(self.attribute("value", ".nearest input[type=text]"), "3")

    def test_a_search_from_a_typed_vector(self):
        self.put("films", self.FILMS)
        self.open_table("films")
        self.choose("metric", "l2")
        self.choose("search by", "vector")
        for text in ("[3, 4]", "[[3.0, 4]]", "3 4", "3,\n4"):
            with self.subTest(text):
                field = self.one(".nearest textarea")
                field.clear()
                field.send_keys("0 0")
                self.click(".nearest button", "Search")
                self.found(("Alien", "0", "0"), ("Brazil", "3", "1"), ("Aliens", "1", "5"), ("Dune", "2", "10"))
                field.clear()
                field.send_keys(text)
                self.click(".nearest button", "Search")
                self.found(("Aliens", "1", "0"), ("Brazil", "3", "4.2426405"), ("Alien", "0", "5"), ("Dune", "2", "5"))
        self.one(".nearest [role=status]", "4 rows nearest to the vector by l2")
        for text, told in (("1 2 3", "the vector has 3 numbers; a row of films has 2"), ("a", "the vector is not a list of numbers"), ("", "the vector has 0 numbers")):
            field.clear()
            field.send_keys(text)
            self.click(".nearest button", "Search")
            self.one(".nearest .error", told)
            self.assertEqual(field.get_attribute("aria-invalid"), "true")

    def drop(self, name, content):
        self.browser.execute_script("""
            const data = new DataTransfer();
            data.items.add(new File([arguments[1]], arguments[0]));
            document.querySelector(".nearest h3").dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));""", name, content)

    def test_a_search_from_a_vector_in_a_file(self):
        self.put("films", self.FILMS)
        self.open_table("films")
        self.choose("metric", "l2")
        self.choose("search by", "vector")
        self.type(".nearest input[type=file]", self.file_of("vector.npy", [3, 4]))
        self.found(("Aliens", "1", "0"), ("Brazil", "3", "4.2426405"), ("Alien", "0", "5"), ("Dune", "2", "5"))
        self.assertEqual(self.attribute("value", ".nearest textarea"), "[3, 4]")
        self.type(".nearest input[type=file]", self.file_of("long.npy", [3, 4, 5]))
        self.one(".nearest .error", "long.npy has 3 numbers; a row of films has 2")
        self.choose("search by", "key")
        self.drop("vector.json", "[0, 0]")
        self.found(("Alien", "0", "0"), ("Brazil", "3", "1"), ("Aliens", "1", "5"), ("Dune", "2", "10"))
        self.assertEqual(self.attribute("value", ".nearest textarea"), "[0, 0]")
        self.drop("large.json", " " * (1 << 20) + "[0, 0]")
        self.one(".nearest .error", "large.json has")

    def test_an_unknown_key_or_row_is_an_error_at_its_place(self):
        self.expected_messages = ("422",)
        self.put("films", self.FILMS)
        self.put("plain", [[1.0], [2.0]])
        for name, text, code, told in (("films", "Solaris", "KEY_NOT_FOUND", '"Solaris" is not one of the keys'), ("plain", "2", "INDEX_OUT_OF_BOUNDS", "2")):
            self.open_table(name)
            self.search(text)
            self.one(".nearest .error[role=alert] .sentence", told)
            self.one(".nearest .error .meta", code)
            field = self.one(".nearest input[type=text]")
            self.assertEqual(field.get_attribute("aria-invalid"), "true")
            field.send_keys("1")
            self.assertIsNone(field.get_attribute("aria-invalid"))

    def test_only_tables_whose_rows_can_be_compared_are_searched(self):
        others = {"integers": {"dtype": "int32", "shape": [2, 2], "data": [1, 2, 3, 4]}, "texts": [["a", "b"]], "vector": [1.5, 2.5], "cube": [[[1.5]]],
                  "bytes": {"dtype": "int8", "shape": [2, 2], "data": [1, 2, 3, 4]}, "empty": {"dtype": "float32", "shape": [0, 2], "data": []}}
        self.put("films", self.FILMS)
        for name, values in others.items():
            self.put(name, values)
        self.open_table("films")
        for name in others:
            with self.subTest(name):
                self.click(".listing button.link", name)
                self.one(".detail h2", name)
                self.assertFalse(self.one(".nearest").is_displayed())
        self.click(".listing button.link", "films")
        self.one(".detail h2", "films")
        self.wait(lambda: self.one(".nearest").is_displayed())

    def test_quantised_rows_are_compared_with_the_scales_beside_them(self):
        self.put("q@1", {"dtype": "uint8", "shape": [3, 2], "data": [10, 10, 13, 14, 10, 11]})
        self.put("q.scale@1", {"dtype": "float32", "shape": [3], "data": [1, 1, 2]})
        self.put("q.zero_point@1", {"dtype": "uint8", "shape": [3], "data": [10, 10, 10]})
        self.open_table("q@1")
        self.search("0")
        self.found(("2", "2"), ("1", "5"))

    def test_a_search_is_in_the_address(self):
        self.put("films", self.FILMS)
        self.open_table("films")
        field = self.one(".nearest input[type=number]")
        field.clear()
        field.send_keys("2")
        self.search("Dune")
        self.found(("Aliens", "1", "5"), ("Brazil", "3", "9.219544"))
        self.click(".forms button", "heat map")
        self.one(".rows canvas")
        self.browser.refresh()
        self.found(("Aliens", "1", "5"), ("Brazil", "3", "9.219544"))
        self.one(".rows canvas")
        self.assertEqual([self.attribute("value", f".nearest {control}") for control in ("input[type=text]", "input[type=number]")], ["Dune", "2"])


class OnDisk(TablesTest):
    OPTIONS = ("--data-dir", temporary_folder())

    def test_a_version_in_memory_cannot_be_chosen_for_an_alias(self):
        self.put("t@1?persist=1", [1])
        self.put("t@2", [2])
        with self.client() as client:
            self.assertEqual(client.request("POST", "/v1/aliases", {"set": {"latest": "t@1"}}).status, 200)
        self.show()
        self.expected_messages = ("409",)
        self.type(".aliases select", "t@2")
        self.click(".aliases button", "Flip")
        self.one(".aliases .problem-text", "this version is in memory only")


class ReadOnly(TablesTest):
    OPTIONS = ("--console", "read-only")

    def test_the_page_offers_no_changes(self):
        self.put("t@1", [1])
        with self.client() as client:
            client.request("POST", "/v1/aliases", {"set": {"latest": "t@1"}})
        self.show("t@1")
        self.one(".facts")
        self.assertEqual(self.all(".upload, button.danger, .aliases button, .aliases input"), [])
        self.assertIn("latest", self.text(".aliases"))
