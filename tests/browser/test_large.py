"""Large tensors do not stop the page: a worker reads and writes their text, and their cells are added in many turns."""
import base64, json, os, struct, tempfile, urllib.parse

from browser import BrowserTest
from daemon import npy

LARGE = 100_000  # bytes or characters, as in background.js
SIDE = 1000

# How much the page's own thread reads or writes as text at once, and what it gives to its worker.
WATCH = """
window.watched ??= (() => {
  const sizes = [], tasks = [];
  const watch = (owner, name, seen) => {
    const own = owner[name];
    owner[name] = function (...given) {
      const result = own.apply(this, given);
      seen(given, result);
      return result;
    };
  };
  watch(JSON, "parse", ([text]) => sizes.push(text.length));
  watch(JSON, "stringify", (_, text) => sizes.push(text?.length ?? 0));
  watch(TextDecoder.prototype, "decode", ([bytes]) => sizes.push(bytes?.byteLength ?? 0));
  watch(Worker.prototype, "postMessage", ([{task}]) => tasks.push(task));
  return {sizes, tasks};
})();
window.watched.sizes.length = window.watched.tasks.length = 0;
"""
# In how many turns cells are added; each time that the clock is read, a millisecond has passed.
COUNT = """
let now = performance.now();
performance.now = () => (now += 1);
window.slices = 0;
new MutationObserver((records) => {
  if (records.some(({target}) => target.closest(".output .cells"))) window.slices += 1;
}).observe(document.querySelector(".result"), {childList: true, subtree: true});
"""
PASTE = """
const text = `[${Array.from({length: 1000}, (_, i) => `[${Array.from({length: 1000}, (_, j) => i + j).join(",")}]`).join(",")}]`;
window.paste = () => {
  const data = new DataTransfer();
  data.setData("text", text);
  arguments[0].dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
};
"""


class Large(BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        numbers = struct.pack(f"<{SIDE * SIDE}f", *(i % SIDE - i // SIDE for i in range(SIDE * SIDE)))
        with cls.client(cls) as client:
            client.request("PUT", "/v1/tensors/large", {"dtype": "float32", "shape": [SIDE, SIDE], "base64": base64.b64encode(numbers).decode()})

    def open_form(self, indices):
        request = json.dumps({"params": {"ref": "large"}, "indices": indices})
        self.ready(f"/#try?{urllib.parse.urlencode({'op': 'gather', 'request': request})}")

    def responsive(self, act, done, tasks=()):
        """the page's thread reads and writes no long text from `act` until `done`; its worker does these tasks"""
        self.browser.execute_script(WATCH)
        act()
        self.wait(done)
        watched = self.browser.execute_script("return window.watched")
        self.assertEqual([size for size in watched["sizes"] if size > LARGE], [])
        self.assertEqual(watched["tasks"], list(tasks))

    def drawn(self):
        return [canvas for canvas in self.all(".output canvas") if f"{SIDE} rows of {SIDE}" in canvas.get_attribute("aria-label")]

    def test_an_answer_of_a_million_elements(self):
        self.open_form([0])
        rows = json.dumps(list(range(SIDE)))
        field = self.all(".tensor-input textarea")[1]
        self.browser.execute_script("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))", field, rows)
        def act():
            self.browser.execute_script("document.querySelector('.result').replaceChildren(); document.getElementById('run').click()")
        self.responsive(act, self.drawn, ["reply"])
        self.assertIn("from -998.5 to 998.5", self.drawn()[0].get_attribute("aria-label"))
        self.responsive(lambda: self.click(".output button", "JSON"), lambda: self.one(".output-body .help", "the first"))
        self.responsive(lambda: self.click(".output button", "heat map"), self.drawn)

    def test_a_million_elements_are_pasted_and_sent(self):
        self.open_form([0])
        kind = self.all(".tensor-input select")[0]
        kind.send_keys("values")
        field = self.all(".tensor-input textarea")[0]
        self.browser.execute_script(PASTE, field)
        self.responsive(lambda: self.browser.execute_script("window.paste()"), lambda: self.one(".tensor-input .preview canvas"), ["text"])
        self.assertEqual(self.text(".tensor-input .type"), f"int32 [{SIDE},{SIDE}]")
        self.assertIn("-d @request.json", self.text(".code"))
        self.responsive(lambda: self.click("#run"), lambda: self.values(".output")[:3] == ["0", "1", "2"])

    def saved(self, button, name):
        """the document in the file that a button saves"""
        with tempfile.TemporaryDirectory() as folder:
            self.browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
            path = os.path.join(folder, name)
            self.click("button", button)
            self.wait(lambda: os.path.exists(path) and json.load(open(path, encoding="utf-8")))
            with open(path, encoding="utf-8") as file:
                return json.load(file)

    def test_what_is_too_long_to_be_shown_is_saved(self):
        self.open_form(list(range(0, SIDE, 20)))
        self.click(".output button", "JSON")
        reply = self.saved("Save all", "reply.json")
        self.assertEqual((reply["output"]["shape"], reply["output"]["data"][1][:3]), ([50, SIDE], [-20, -19, -18]))
        field = self.all(".tensor-input textarea")[1]
        self.browser.execute_script("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))", field, json.dumps([7] * 9000))
        self.assertEqual(self.saved("Save request.json", "request.json"), {"params": {"ref": "large"}, "indices": [7] * 9000})

    def test_a_file_of_a_million_elements(self):
        self.open_form([0])
        numbers = struct.pack(f"<{SIDE * SIDE}f", *range(SIDE * SIDE))
        with tempfile.NamedTemporaryFile(suffix=".npy") as file:
            file.write(npy("float32", (SIDE, SIDE), numbers))
            file.flush()
            field = self.one(".tensor-input input[type=file]")
            self.responsive(lambda: field.send_keys(os.path.realpath(file.name)), lambda: self.one(".tensor-input .preview canvas"), ["file"])
        self.responsive(lambda: self.click("#run"), lambda: self.values(".output")[:3] == ["0", "1", "2"])

    def test_ten_thousand_cells(self):
        self.open_form([0])
        field = self.all(".tensor-input textarea")[1]
        self.browser.execute_script("arguments[0].value = '[0,1,2,3,4,5,6,7,8,9]'; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))", field)
        def act():
            self.browser.execute_script("document.querySelector('.result').replaceChildren(); document.getElementById('run').click()")
        self.browser.execute_script(COUNT)
        self.responsive(act, lambda: len(self.all(".output td[data-index='9999']")) == 1)
        # 50 cells a step, 8 steps a turn; those of the first turn are there before the table is shown.
        self.assertGreaterEqual(self.browser.execute_script("return window.slices"), 10000 // (50 * 8) - 1)

    def test_a_million_cells_of_a_table(self):
        self.browser.get("about:blank")
        self.open("/#tables?name=large")
        self.one(".rows td")
        field = self.one(".detail form input[type=text]")
        field.clear()
        field.send_keys(f"0-{SIDE - 1}")
        self.responsive(lambda: self.click(".detail form button"), lambda: self.one(".rows canvas"), ["reply"])
