"""Programs: the list, the graph and the steps, errors at their place, calls, storing without losing another's change, deletion."""
import json
from urllib.parse import quote

from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By

from browser import BrowserTest

RANK = """{"inputs": {"query": {"dtype": "float32", "shape": [2]}, "ids": {"dtype": "int32", "shape": ["n"]}},
 "steps": [
  {"op": "gather", "params": {"ref": "movies"}, "indices": "$ids", "as": "rows"},
  {"op": "einsum", "equation": "nd,d->n", "inputs": ["$rows", "$query"], "as": "scores"},
  {"op": "top_k", "x": "$scores", "k": {"attr": "k", "default": 2}, "as": {"values": "best", "indices": "place"}},
  {"op": "gather", "params": "$ids", "indices": "$place", "as": "who"}],
 "outputs": ["who", "best"]}"""
MOVIES = [[0.1, 0.9], [0.8, 0.1], [0.5, 0.5], [0.2, 0.7]]


class ProgramsTest(BrowserTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.remove_all)

    def remove_all(self):
        with self.client() as client:
            for program in client.request("GET", "/v1/programs").json()["programs"]:
                client.request("DELETE", "/v1/programs/" + quote(program["name"]))
            client.request("DELETE", "/v1/tensors/movies")

    def put(self, name="rank", text=RANK, movies=MOVIES):
        with self.client() as client:
            if movies:
                client.request("PUT", "/v1/tensors/movies", movies)
            self.assertIn(client.request("PUT", f"/v1/programs/{name}", text.encode(), {"Content-Type": "application/json"}).status, (200, 201))

    def stored(self, name="rank"):
        """the stored text, or None"""
        with self.client() as client:
            reply = client.request("GET", f"/v1/programs/{name}")
            return reply.body.split(b'"program":', 1)[1][:-1].decode() if reply.status == 200 else None

    def show(self, name=None):
        self.browser.get("about:blank")
        self.open("/#programs" + (f"?name={name}" if name else ""))
        self.one(".message > *")

    def text_shown(self):
        return self.one(".editor textarea").get_attribute("value")

    def write(self, text):
        field = self.one(".editor textarea")
        self.browser.execute_script("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))", field, text)

    def change(self, old, new):
        text = self.text_shown()
        self.assertIn(old, text)
        self.write(text.replace(old, new))

    def give(self, name, text):
        field = next(group for group in self.all(".tensor-input") if group.find_element(By.TAG_NAME, "legend").text.startswith(name)).find_element(By.TAG_NAME, "textarea")
        field.clear()
        field.send_keys(text)

    def run_rank(self):
        self.give("query", "[0, 1]")
        self.give("ids", "[3, 1, 2]")
        self.click("#run")
        self.one(".result .output")

    def boxes(self, kind):
        return [box.text.split("\n") for box in self.all(f".graph g.{kind}")]

    def arrows(self):
        """pairs of the kinds and names or numbers of the boxes"""
        short = lambda label: " ".join(label.split(":")[0].split(" ")[:2])
        return sorted((short(arrow.get_attribute("data-from")), short(arrow.get_attribute("data-to"))) for arrow in self.all(".graph .arrow"))

    def row(self, number):
        return [cell.get_attribute("textContent") for cell in self.all(".steps tbody tr")[number].find_elements(By.TAG_NAME, "td")]

    def store_as(self, name):
        field = self.one("form[aria-label='store the program'] input[type=text]")
        field.clear()
        field.send_keys(name)
        self.click("#store")

    def confirm(self, title, text):
        self.one("dialog[open]", title).find_element(By.CSS_SELECTOR, "input").send_keys(text)
        self.click("dialog[open] button[type=submit]")


class Programs(ProgramsTest):
    def test_the_list_tells_what_each_program_needs_and_returns(self):
        self.put()
        self.put("waiting", RANK.replace("movies", "gone"))
        self.show("rank")
        self.one(".programs .problem-text", "there is no resident tensor 'gone'")
        lines = [[cell.text for cell in line.find_elements(By.TAG_NAME, "td")][:6] for line in self.all(".programs tbody tr")]
        self.assertEqual(lines[0][0::2] + lines[0][3::2], ["rank", "ready", "who int32 [?], best float32 [?]", "query float32 [2], ids int32 [n]", "memory"])
        self.type(".programs input[type=search]", "WAIT")
        self.wait(lambda: [node.text for node in self.all(".programs td:first-child")] == ["waiting"])
        self.click(".programs button.link", "waiting")
        self.one("h2", "waiting")
        self.assertIn('"gone"', self.text_shown())

    def test_without_programs_the_page_starts_with_an_example(self):
        self.show()
        self.one(".programs .empty", "There are no stored programs yet")
        self.assertEqual(self.boxes("input"), [["x", "float32 [n]"], ["range", "int32 [n]"]])

    def test_every_example_runs(self):
        self.show()
        expected = {"Partition, add one, stitch": [["1.1", "-1", "6.2", "5.3", "-1", "8.4"]], "Score and rank": [["3", "2"], ["0.7", "0.5"]]}
        self.assertEqual([button.text for button in self.all("[aria-label=examples] button")], list(expected))
        for title, values in expected.items():
            self.click("[aria-label=examples] button", title)
            self.one(".message", "The server accepts the program, with")
            self.click("#run")
            self.one(".result .output")
            self.assertEqual([self.values(f".output[aria-label={name}]") for name in (["result"] if len(values) == 1 else ["who", "best"])], values)

    def test_the_graph_has_a_box_for_each_part_and_an_arrow_for_each_reference(self):
        self.put()
        self.show("rank")
        self.one(".message", "The server accepts the program")
        self.assertEqual([box[0] for box in self.boxes("input")], ["query", "ids"])
        self.assertEqual(self.boxes("table"), [["movies", "table"]])
        self.assertEqual([box[0] for box in self.boxes("step")], ["0 gather", "1 einsum", "2 top_k", "3 gather"])
        self.assertEqual(self.boxes("step")[2][1:5], ["best", "place", "float32 [2]", "int32 [2]"])
        self.assertEqual([box[0] for box in self.boxes("output")], ["who", "best"])
        self.assertEqual(self.arrows(), sorted([("table movies", "step 0"), ("input ids", "step 0"), ("step 0", "step 1"), ("input query", "step 1"), ("step 1", "step 2"),
                                                ("input ids", "step 3"), ("step 2", "step 3"), ("step 3", "output who"), ("step 2", "output best")]))
        places = self.browser.execute_script("return [...document.querySelectorAll('.graph g.step rect')].map((box) => box.getBoundingClientRect().top)")
        self.assertEqual(places, sorted(places))

    def test_keys_can_be_a_reference(self):
        steps = [{"op": "gather", "params": {"ref": "movies"}, "indices": {"keys": "$titles"}, "as": "rows"}]
        self.put(text=json.dumps({"inputs": {"titles": {"dtype": "string", "shape": ["n"]}}, "steps": steps, "outputs": ["rows"]}), movies={"tensor": [[1, 2], [3, 4]], "keys": ["Alien", "Dune"]})
        self.show("rank")
        self.assertEqual(self.arrows(), [("input titles", "step 0"), ("step 0", "output rows"), ("table movies", "step 0")])
        self.give("titles", '["Dune"]')
        self.click("#run")
        self.wait(lambda: self.values(".output[aria-label=rows]") == ["3", "4"])

    def test_tables_and_what_is_made_of_them_stand_near_their_first_use(self):
        steps = [("square", {"x": "$x"}, "a"), ("square", {"x": "$a"}, "b"), ("square", {"x": {"ref": "movies"}}, "c"), ("add", {"x": "$b", "y": "$c"}, "d")]
        self.put(text=json.dumps({"inputs": {"x": {"dtype": "float32", "shape": [4, 2]}}, "steps": [{"op": op, **members, "as": name} for op, members, name in steps], "outputs": ["d"]}))
        self.show("rank")
        tops = dict(self.browser.execute_script("return [...document.querySelectorAll('.graph g.box')].map((box) => [box.classList[1] + box.dataset.id, box.getBoundingClientRect().top])"))
        self.assertEqual((tops["step2"], tops["tablemovies"]), (tops["step1"], tops["step0"]))

    def test_steps_are_a_list_too_with_letters_and_costs(self):
        self.put()
        self.show("rank")
        self.one(".message", "The server accepts the program")
        self.assertEqual(self.row(0)[:3], ["0 gather", "table movies, ids", "rows float32 [n,2]"])
        self.assertEqual(self.row(1)[1], "rows, query")
        self.assertEqual(self.row(2)[1], "scores, argument k")
        self.assertRegex(self.row(1)[3], r"^\d")
        self.assertRegex(self.row(1)[4], "B$")

    def test_the_graph_is_walked_with_the_keyboard_and_shows_the_place_in_the_text(self):
        self.put()
        self.show("rank")
        self.browser.execute_script("document.querySelector('.graph g.table').focus()")
        ActionChains(self.browser).send_keys(Keys.ARROW_DOWN).perform()
        self.one(".graph g.step[data-id='0'][aria-pressed=true]")
        self.assertTrue(self.one(".echo-text mark.lit").get_attribute("textContent").startswith('{"op": "gather", "params": {"ref": "movies"}'))
        ActionChains(self.browser).send_keys(Keys.ARROW_DOWN).perform()
        self.one(".steps tr[aria-current=true]", "1 einsum")
        self.click(".steps button.link", "3 gather")
        self.one(".graph g.step[data-id='3'][aria-pressed=true]")

    def test_check_shows_an_error_at_its_place(self):
        self.expected_messages = ("400",)
        self.put()
        self.show("rank")
        self.change("$scores", "$scoers")
        self.click("#check")
        self.one(".message .error", 'there is no input or result "scoers"')
        self.one(".message .place", "in step 2, top_k: line 5, column 24")
        self.assertEqual(self.one(".echo-text mark.bad").get_attribute("textContent"), '"$scoers"')
        self.one(".graph g.step.bad[data-id='2']")
        self.click(".message .place button")
        self.assertEqual(self.browser.execute_script("const e = document.activeElement; return e.value.slice(e.selectionStart, e.selectionEnd)"), '"$scoers"')
        self.change("$scoers", "$scores")
        self.assertEqual(self.all(".echo-text mark.bad"), [])
        self.click("#check")
        self.one(".message", "The server accepts the program")
        self.assertEqual(self.all(".graph g.bad"), [])

    def test_check_shows_where_the_text_is_not_json(self):
        self.put()
        self.show("rank")
        self.change('"op": "top_k"', '"op" "top_k"')
        self.one("form .problem-text", "This is not JSON yet")
        self.click("#check")
        self.one(".message .place", "line 5, column 9")
        self.write(RANK[:-1])
        self.click("#check")
        self.one(".message .place", "line 7, column 28")

    def test_an_error_of_an_op_is_shown_at_its_attribute_or_argument(self):
        self.expected_messages = ("422",)
        self.put()
        self.show("rank")
        self.type(".attributes input", "9")
        self.give("ids", "[3, 1, 2]")
        self.click("#check")
        self.one(".message .place", "in step 2, top_k: line 5, column 40")
        self.one(".attributes .problem-text", "k is 9")

    def test_run_shows_the_result_and_the_time_of_each_step(self):
        self.put()
        self.show("rank")
        self.run_rank()
        self.assertEqual((self.values(".output[aria-label=who]"), self.values(".output[aria-label=best]")), (["3", "2"], ["0.7", "0.5"]))
        for step in range(4):
            self.assertRegex(self.row(step)[5], r"^\d[\d.]*\s[µm]s$")
        self.assertRegex(self.one(".graph g.step[data-id='1']").get_attribute("textContent"), r"\d\s[µm]s")
        self.type(".attributes input", "1" + Keys.CONTROL + Keys.ENTER)
        self.wait(lambda: self.values(".output[aria-label=who]") == ["3"])

    def test_a_changed_text_runs_without_being_stored(self):
        self.put()
        self.show("rank")
        self.change('"outputs": ["who", "best"]', '"outputs": ["who", "best", "scores"]')
        self.run_rank()
        self.assertEqual(self.values(".output[aria-label=scores]"), ["0.7", "0.1", "0.5"])
        self.assertEqual(self.stored(), RANK)

    def test_a_value_that_does_not_fit_is_shown_at_its_field(self):
        self.expected_messages = ("422",)
        self.put()
        self.show("rank")
        self.click("#run")
        self.one(".message .error", "query, ids: no value yet")
        self.give("query", "[0, 1]")
        self.give("ids", "[3, 9]")
        self.click("#run")
        self.one(".message .error", "indices[1] = 9 is not in [0, 4)")
        self.one(".graph g.step.bad[data-id='0']")
        self.assertEqual(self.all(".result .output"), [])

    def test_a_program_is_stored_and_run_by_others(self):
        self.put()
        self.show("rank")
        self.change('"default": 2', '"default": 1')
        self.one("h2", "rank, changed")
        text = self.text_shown()
        self.click("#store")
        self.notice("rank was stored")
        self.assertEqual(self.stored(), text)
        self.wait(lambda: self.text("h2") == "rank")
        self.store_as("rank2")
        self.notice("rank2 was stored")
        self.one(".programs button.link", "rank2")
        with self.client() as client:
            self.assertEqual(client.request("POST", "/v1/programs/rank2", {"query": [0, 1], "ids": [3, 1]}).json()["outputs"]["who"]["data"], [3])

    def test_the_change_of_another_is_not_overwritten(self):
        self.expected_messages = ("412",)
        self.put()
        self.show("rank")
        self.change('"default": 2', '"default": 1')
        mine, theirs = self.text_shown(), RANK.replace('"default": 2', '"default": 3')
        self.put(text=theirs)
        self.click("#store")
        self.one("dialog[open]", "changed since you opened it")
        self.click("dialog[open] button", "Keep it")
        self.one(".message", "rank is unchanged")
        self.assertEqual((self.stored(), self.text_shown()), (theirs, mine))
        self.browser.refresh()  # the text on the page still belongs to the version before
        self.one("h2", "rank, changed")
        self.click("#store")
        self.confirm("changed since you opened it", "rank")
        self.notice("rank was stored")
        self.assertEqual(self.stored(), mine)

    def test_the_deletion_by_another_is_not_undone_unasked(self):
        self.expected_messages = ("412",)
        self.put()
        self.show("rank")
        self.change('"default": 2', '"default": 1')
        with self.client() as client:
            client.request("DELETE", "/v1/programs/rank")
        self.click("#store")
        self.one("dialog[open]", "was deleted since you opened it")
        self.assertIsNone(self.stored())
        self.confirm("Store rank?", "rank")
        self.notice("rank was stored")
        self.assertEqual(self.stored(), self.text_shown())

    def test_a_new_program_does_not_take_the_name_of_another(self):
        self.expected_messages = ("412",)
        self.put()
        self.show("rank")
        self.click("[aria-label=examples] button", "Score and rank")
        self.one("h2", "New program")
        self.store_as("rank")
        self.one("dialog[open]", "A program with this name already exists")
        self.click("dialog[open] button", "Keep it")
        self.assertEqual(self.stored(), RANK)

    def test_an_error_of_storing_is_shown_at_its_place(self):
        self.expected_messages = ("400", "422")
        self.show()
        self.change('"range": {"dtype": "int32", "shape": ["n"]}', '"range": [0, 1]')
        self.store_as("chain")
        self.one(".message .place", "line 3, column 12")
        self.one(".graph g.input.bad[data-id=range]")
        self.assertIsNone(self.stored("chain"))
        self.change('"range": [0, 1]', '"range": {"dtype": "int32", "shape": ["n"]}')
        self.click("form[aria-label='store the program'] input[type=checkbox]")
        self.click("#store")
        self.one(".message .error", "--data-dir")

    def test_a_program_is_deleted_once_its_name_is_typed(self):
        self.put()
        self.show("rank")
        self.click("button.danger", "Delete")
        self.one("dialog[open]", "Delete rank?")
        self.click("dialog[open] button", "Keep it")
        self.assertIsNotNone(self.stored())
        self.click("button.danger", "Delete")
        self.confirm("Delete rank?", "rank")
        self.notice("rank was deleted")
        self.one(".programs .empty")
        self.assertIsNone(self.stored())
        self.one("h2", "New program")
        self.assertEqual(self.text_shown(), RANK)  # can be stored again

    def test_a_program_that_is_not_ready_is_shown(self):
        self.put(movies=None)
        self.browser.get("about:blank")
        self.open("/#programs?name=rank")
        self.one(".programs .problem-text", "there is no resident tensor 'movies'")
        self.assertEqual([box[0] for box in self.boxes("step")], ["0 gather", "1 einsum", "2 top_k", "3 gather"])

    def test_an_unknown_name_in_the_address_is_told(self):
        self.expected_messages = ("404",)
        self.open("/#programs?name=gone")
        self.one("main .problem-text", "There is no program gone.")

    def test_the_address_has_the_values_and_an_unstored_text(self):
        self.put()
        self.show("rank")
        self.run_rank()
        address = self.browser.current_url
        self.change('"default": 2', '"default": 1')
        changed = self.browser.current_url
        for url, who in ((address, ["3", "2"]), (changed, ["3"])):
            self.browser.get("about:blank")
            self.browser.get(url)
            self.one(".message", "n = 3")
            self.click("#run")
            self.wait(lambda: self.values(".output[aria-label=who]") == who)

    def test_a_text_on_one_line_gets_a_line_for_each_step(self):
        self.put(text=json.dumps(json.loads(RANK)).replace('"default": 2', '"default":  2'))
        self.show("rank")
        lines = self.text_shown().split("\n")
        self.assertEqual(len(lines), 9)
        self.assertIn('"default":  2', lines[6])
        self.assertEqual(self.one(".editor .numbers").get_attribute("textContent").split("\n"), [str(i) for i in range(1, 10)])


class ProgramsReadOnly(ProgramsTest):
    OPTIONS = ("--console", "read-only")

    def test_programs_run_and_nothing_is_stored_or_deleted(self):
        self.put()
        self.show("rank")
        self.run_rank()
        self.assertEqual(self.all("#store, button.danger"), [])
