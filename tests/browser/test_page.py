"""The page as a whole: the keyboard, the first paint, its size, the token."""
import os, re, shutil, subprocess, sys

from selenium.webdriver import ActionChains, Keys

from browser import BrowserTest, PATIENCE_S

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "server", "console", "page")


class Page(BrowserTest):
    def shown(self, path):
        self.open("about:blank" if path.startswith("about") else path)
        self.one(".result > *" if "try" in path else ".listing" if "tables" in path else ".graph" if "programs" in path else ".charts" if "live" in path else "section.op")

    def test_everything_is_reached_by_the_keyboard(self):
        self.shown("/#try?op=gather")
        controls = self.browser.execute_script("return document.querySelectorAll('a[href], button:not(:disabled), select, textarea, input').length"
                                               " - document.querySelectorAll('dialog *:is(a, button, input), [hidden] *:is(input, select, textarea, button)').length")
        reached = set()
        for _ in range(controls + 20):
            ActionChains(self.browser).send_keys(Keys.TAB).perform()
            reached.add(self.browser.execute_script("const e = document.activeElement; return e.id || e.outerHTML.slice(0, 200)"))
        self.assertGreaterEqual(len(reached), controls)

    def test_what_has_the_focus_is_not_below_the_bar_of_run(self):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 360, "height": 640, "deviceScaleFactor": 1, "mobile": False})
        self.addCleanup(self.browser.execute_cdp_cmd, "Emulation.clearDeviceMetricsOverride", {})
        self.shown("/#try?op=gather")
        for _ in range(30):
            ActionChains(self.browser).send_keys(Keys.TAB).perform()
            covered = self.browser.execute_script("""
                const node = document.activeElement, bar = document.querySelector(".run-bar");
                return node.closest(".run-bar, .answer .snippet pre") || node.getBoundingClientRect().bottom <= bar.getBoundingClientRect().top + 1 ? "" : node.outerHTML.slice(0, 200);""")
            self.assertEqual(covered, "")

    def test_the_link_to_the_content_stays_in_the_view(self):
        self.shown("/#tables")
        self.browser.execute_script("document.querySelector('.skip').focus()")
        ActionChains(self.browser).send_keys(Keys.ENTER).perform()
        self.assertEqual(self.browser.execute_script("return document.activeElement.id"), "view")
        self.assertTrue(self.browser.current_url.endswith("#tables"))
        self.one(".listing")

    def test_each_view_has_a_title(self):
        for path, title in (("/#try", "Try"), ("/#tables", "Tables"), ("/#programs", "Programs"), ("/#live", "Live"), ("/docs", "Docs")):
            self.shown(path)
            self.assertEqual(self.browser.title, f"{title} · tensord")

    def test_the_cells_of_an_answer_are_walked_with_arrows(self):
        self.shown("/#try?op=gather")
        cell = self.one(".output td[data-index='0']")
        self.browser.execute_script("arguments[0].focus()", cell)
        ActionChains(self.browser).send_keys(Keys.ARROW_DOWN).perform()
        self.assertEqual(self.browser.execute_script("return document.activeElement.dataset.index"), "2")
        self.one(".told", "output[1,0] ← params[0,0] by indices[1]")

    def test_the_views_share_a_page(self):
        self.shown("/#try?op=gather")
        self.browser.execute_script("window.mark = 1")
        for view, expected in (("Docs", "section.op"), ("Tables", ".listing, .detail .empty"), ("Programs", ".graph"), ("Docs", "section.op"), ("Live", ".charts"), ("Try", ".result > *")):
            self.click(".bar nav a", view)
            self.one(expected)
            self.assertEqual(self.browser.title, f"{view} · tensord")
        self.assertEqual(self.browser.execute_script("return window.mark"), 1)
        self.browser.back()
        self.one(".charts")
        self.browser.back()
        self.one("section.op")
        self.assertEqual(self.browser.execute_script("return [location.pathname, window.mark]"), ["/docs", 1])

    def test_the_number_of_workers_is_shown(self):
        self.shown("/#try?op=gather")
        self.wait(lambda: re.match(r"ready · \d+ workers?$", self.text("#server-state")))

    def theme(self):
        return self.browser.execute_script("return getComputedStyle(document.documentElement).colorScheme || matchMedia('(prefers-color-scheme: dark)').matches"), \
            self.browser.execute_script("return getComputedStyle(document.body).backgroundColor")

    def test_light_and_dark_change_at_the_first_click_and_stay(self):
        self.addCleanup(self.browser.execute_script, "localStorage.clear()")
        self.shown("/#try?op=gather")
        colours = [self.theme()[1]]
        self.click("#theme-button")
        colours.append(self.theme()[1])
        self.assertNotEqual(*colours)
        self.browser.refresh()
        self.one(".result > *")
        self.assertEqual(self.theme()[1], colours[1])
        self.click("#theme-button")
        self.assertEqual(self.theme()[1], colours[0])
        self.assertEqual(self.browser.execute_script("return localStorage.length"), 0)  # as the system prefers

    def test_a_file_that_misses_an_input_is_not_opened(self):
        self.shown("/#try?op=gather")
        self.assertEqual(self.browser.execute_script("""
            return ["dragover", "drop"].map((kind) => {
                const data = new DataTransfer();
                data.items.add(new File(["x"], "x.npy"));
                return !document.querySelector("main").dispatchEvent(new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: data}));
            });"""), [True, True])
        self.notice("Nothing was read")

    def test_the_first_paint_waits_for_no_reply(self):
        script = self.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument",
                                              {"source": "window.asked = []; window.fetch = (path) => new Promise(() => { window.asked.push(path); });"})
        self.addCleanup(self.browser.execute_cdp_cmd, "Page.removeScriptToEvaluateOnNewDocument", script)
        for path in ("/#try?op=gather", "/#tables", "/#programs", "/#live", "/docs"):
            self.browser.get("about:blank")
            self.open(path)
            self.wait(lambda: self.browser.execute_script("return performance.getEntriesByName('first-contentful-paint').length"), path)
            self.wait(lambda: self.browser.execute_script("return window.asked.length"), path)  # so it is this fetch that would have answered

    def test_all_files_of_the_page_are_small(self):
        with self.client() as client:
            sizes = [len(client.request("GET", f"/console/{name}").body) for name in os.listdir(PAGE)]
        self.assertGreater(len(sizes), 30)
        self.assertLess(sum(sizes), 300_000)
        print(f"size: {sum(sizes)} bytes in {len(sizes)} files")


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
        self.one("#token-problem", "requires a token")
        self.type("#token-input", "wrong" * 8, Keys.ENTER)
        self.one("#token-problem", "does not know this token")
        self.type("#token-input", self.secret, Keys.ENTER)
        self.one(".output .type")
        self.assertIn("$TOKEN", self.text(".code"))
        for name, program in (("Python", [sys.executable, "-c"]), ("JavaScript", ["node", "--input-type=module", "-e"])):
            self.click(".snippet button", name)
            if shutil.which(program[0]):
                printed = subprocess.run([*program, self.text(".code")], stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=True, env={**os.environ, "TOKEN": self.secret})
                self.assertIn("output", printed.stdout)
        self.assertNotIn(self.secret, self.browser.execute_script("return document.documentElement.outerHTML + JSON.stringify([{...localStorage}, {...sessionStorage}]) + document.cookie"))
        self.browser.refresh()
        self.one("dialog[open]")

    def test_the_token_and_the_reason_stay_with_the_page(self):
        self.expected_messages = ("401",)
        self.open("/#tables")
        self.one("dialog[open]")
        self.assertIn('enter one with the "Token" button at the top', self.text("#view .error"))
        self.type("#token-input", self.secret, Keys.ENTER)
        self.one(".detail .empty")
        self.click(".bar nav a", "Programs")
        self.one(".graph")
        self.click(".bar nav a", "Docs")
        self.one("section.op")
        self.click(".bar nav a", "Try")
        self.one(".output .type")
        self.assertEqual(self.all("dialog[open]"), [])

    def test_who_declines_a_token_is_not_asked_again(self):
        self.expected_messages = ("401",)
        self.open("/#live")
        self.one("dialog[open]")
        ActionChains(self.browser).send_keys(Keys.ESCAPE).perform()
        self.wait(lambda: not self.all("dialog[open]"))
        scrapes = "return performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/metrics')).length"
        before = self.browser.execute_script(scrapes)
        self.wait(lambda: self.browser.execute_script(scrapes) >= before + 2, "Live asks for metrics again")
        self.assertEqual(self.all("dialog[open]"), [])

    def test_an_answer_to_no_token_says_nothing_about_the_token_given_since(self):
        self.expected_messages = ("401",)
        hold = """
        window.held = [];
        const fetchNow = window.fetch;
        window.fetch = async (path, options) => {
            const reply = await fetchNow(path, options);
            if (path === "/metrics" && !options.headers.Authorization) await new Promise((release) => window.held.push(release));
            return reply;
        };
        """
        added = self.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": hold})
        self.addCleanup(self.browser.execute_cdp_cmd, "Page.removeScriptToEvaluateOnNewDocument", added)
        self.open("/")
        self.wait(lambda: self.browser.execute_script("return window.held.length"), "an answer to /metrics")
        self.type("#token-input", self.secret, Keys.ENTER)
        self.one(".output .type")
        self.browser.execute_async_script("for (const release of window.held) release(); setTimeout(arguments[0])")
        self.assertEqual(self.all("dialog[open]"), [])

    def test_escape_keeps_the_token(self):
        self.expected_messages = ("401",)
        self.open("/")
        self.type("#token-input", self.secret, Keys.ENTER)
        self.one(".output .type")
        self.click("#token-button")
        ActionChains(self.browser).send_keys(Keys.ESCAPE).perform()
        self.wait(lambda: not self.all("dialog[open]"))
        self.assertEqual(self.text("#token-button"), "Token: set")
        self.click("#run")
        self.one(".output .type")
