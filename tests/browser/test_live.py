"""Live: what the server does, drawn from /metrics."""
import contextlib, re, threading

from selenium.webdriver import ActionChains, Keys

from browser import BrowserTest

# Metrics are asked for so many times, and once more: the test answers that by increasing the number. The page asks only once the last
# answer is drawn.
ALLOWED = """
window.scrapes = 0;
const waiting = [];
window.allow = (n) => {
  window.allowed = n;
  for (const go of waiting.splice(0)) go();
};
const allowed = async () => {
  while (window.scrapes > window.allowed) await new Promise((resolve) => waiting.push(resolve));
};
"""
# Metrics come four times.
FOUR_TIMES = ALLOWED + """
const fetched = window.fetch;
window.allowed = 4;
window.fetch = async (path, options) => {
  if (path === "/metrics") {
    window.scrapes += 1;
    await allowed();
  }
  return fetched(path, options);
};
"""
# The second reply with metrics is lost.
LOST = ALLOWED + """
const fetched = window.fetch;
window.allowed = 2;
window.fetch = async (path, options) => {
  if (path !== "/metrics") return fetched(path, options);
  window.scrapes += 1;
  await allowed();
  if (window.scrapes === 2) throw new TypeError("lost");
  return fetched(path, options);
};
"""
# The second and the third are refused.
REFUSED = ALLOWED + """
const fetched = window.fetch;
window.allowed = 3;
window.fetch = async (path, options) => {
  if (path !== "/metrics") return fetched(path, options);
  window.scrapes += 1;
  await allowed();
  if (window.scrapes === 2 || window.scrapes === 3) return new Response('{"detail": "too many"}', {status: 429});
  return fetched(path, options);
};
"""
# The daemon starts a little earlier or later at each scrape, as the kernel tells it, and is another one from the fourth on.
RESTARTED = ALLOWED + """
const fetched = window.fetch;
window.allowed = 5;
window.fetch = async (path, options) => {
  if (path !== "/metrics") return fetched(path, options);
  const scrapes = window.scrapes += 1;
  await allowed();
  const reply = await fetched(path, options);
  const started = 1000 + 0.01 * (scrapes % 2) + (scrapes < 4 ? 0 : 7);
  return new Response((await reply.text()).replace(/^process_start_time_seconds .*$/m, `process_start_time_seconds ${started}`));
};
"""
# The daemon's metrics, with those of a device: 6 calls in 2 batches more at every scrape, each 2 seconds after the last.
DEVICE = """
const fetched = window.fetch; let scrapes = 0;
performance.now = () => 2000 * scrapes;
window.fetch = async (path, options) => {
  const reply = await fetched(path, options);
  if (path !== "/metrics") return reply;
  scrapes += 1;
  return new Response(`${await reply.text()}tensord_device_batches_total ${2 * scrapes}\\ntensord_device_calls_total ${6 * scrapes}\\ntensord_device_failed_calls_total 0\\n`);
};
"""
# Every scrape finds 100 more requests, whose compute stage took up to 1 ms 50 times, up to 100 ms 48 times and up to 1 s twice, and 2 s
# in all; as many probes, which took ten seconds each, are not work.
STAGES = """
const fetched = window.fetch; let scrapes = 0;
window.fetch = async (path, options) => {
  if (path !== "/metrics") return fetched(path, options);
  scrapes += 1;
  const of = (op, stage, buckets, sum) => Object.entries({...buckets, "+Inf": 100}).map(([le, n]) => `tensord_stage_duration_seconds_bucket{op="${op}",stage="${stage}",le="${le}"} ${n * scrapes}`)
    .concat(`tensord_stage_duration_seconds_count{op="${op}",stage="${stage}"} ${100 * scrapes}`, `tensord_stage_duration_seconds_sum{op="${op}",stage="${stage}"} ${sum * scrapes}`);
  const lines = [...of("gather", "compute", {"0.001": 50, "0.1": 98, "1": 100}, 2), ...of("gather", "queue", {"0.001": 0, "0.1": 0, "1": 0}, 500), ...of("health", "compute", {"0.001": 0, "0.1": 0, "1": 0}, 1000)];
  return new Response(lines.join("\\n"));
};
"""


class Live(BrowserTest):
    @contextlib.contextmanager
    def load(self):
        """lookups in a table, one of three refused"""
        stop = threading.Event()

        def work():
            with self.client() as client:
                client.request("PUT", "/v1/tensors/busy", [[1, 2], [3, 4]])
                while not stop.is_set():
                    for _ in range(2):
                        client.request("POST", "/v1/tensors/busy/gather", {"indices": [1, 0, 1]})
                    client.request("POST", "/v1/tensors/busy/gather", {"indices": [5]})
                client.request("DELETE", "/v1/tensors/busy")
        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def said(self, title):
        return self.attribute("aria-label", f".chart[aria-label^='{title}']")

    def says(self, title, pattern):
        """waits until the newest values are such: between two scrapes there may have been no request"""
        self.wait(lambda: re.search(pattern, self.said(title)), f"{title} {pattern}")

    def row_says(self, table, pattern):
        first = "return document.querySelector(`[aria-label='${arguments[0]}'] tbody tr`).innerText"
        self.wait(lambda: re.search(pattern, self.browser.execute_script(first, table)), f"{table} {pattern}")

    def test_requests_latency_stages_errors_and_tables_are_drawn(self):
        with self.load():
            self.open("/#live")
            self.one(".rankings", "busy")
            self.says("Requests.", r"answered [1-9][\d.]*\s?k?/s, refused or failed [1-9]")
            self.says("Latency.", r"p50 [\d.]+.[µm]?s, p90 [\d.]+.[µm]?s, p99 [\d.]+.[µm]?s")
            self.says("Stages", r"decode [\d.]+.[µm]?s, queue [\d.]+.[µm]?s, compute [\d.]+.[µm]?s, encode [\d.]+.[µm]?s")
            self.says("Errors.", r"INDEX_OUT_OF_BOUNDS|[1-9][\d.]*\s?k?/s")
            self.says("Tables", r": .*[1-9]")  # after the time
            self.row_says("Tables", r"^busy\t[1-9].*/s\t[1-9].*/s\t[1-9].*/s\t[1-9].*B/s$")
            self.one("[aria-label='Stages by op'] .stage-bar")
            label, width, widths = self.browser.execute_script("""
                const bar = document.querySelector("[aria-label='Stages by op'] .stage-bar");
                return [bar.ariaLabel, bar.offsetWidth, [...bar.querySelectorAll("i")].map((part) => part.getBoundingClientRect().width)];""")
            self.assertRegex(label, r"^decode [\d.]+.[µm]?s, queue [\d.]+.[µm]?s, compute [\d.]+.[µm]?s, encode [\d.]+.[µm]?s$")
            self.row_says("Stages by op", r"^gather(\s+[\d.]+\u2009[µm]?s){5}$")
            self.assertAlmostEqual(sum(widths), width, delta=4)
            self.assertEqual(self.attribute("href", "[aria-label='Errors'] a"), self.origin + "/problems/index-out-of-bounds")
            for chart in ("Requests", "Latency", "Stages", "Errors", "Tables"):
                self.wait(lambda: self.painted(chart), chart)

    def choose(self, statistic):
        self.browser.execute_script("""
            const control = document.querySelector("select[aria-label='Stages: statistic']");
            control.value = arguments[0];
            control.dispatchEvent(new Event("change"));""", statistic)

    def test_the_stages_are_shown_by_mean_or_percentile(self):
        self.open_with(STAGES)
        self.one(".rankings", "gather")
        row = self.text("[aria-label='Stages by op'] tbody tr")
        self.assertEqual(row.replace("\u2009", "").split(), ["gather", "5.02s", "–", "1.00s", "550ms", "–"])
        self.assertEqual(len(self.all("[aria-label='Stages by op'] tbody tr")), 1)
        for statistic, want in (("mean", "queue 5.00s, compute 20.0ms"), ("p50", "queue 1.00s, compute 1.00ms"), ("p90", "queue 1.00s, compute 83.5ms"),
                                ("p99", "queue 1.00s, compute 550ms")):
            self.choose(statistic)
            said = self.said("Stages").replace("\u2009", "")
            self.assertRegex(said, rf"^Stages\. {statistic} ")
            self.assertTrue(said.endswith(f": decode 0s, {want}, encode 0s"), said)
        first = self.time()
        self.wait(lambda: self.time() != first)  # the choice holds for the points before it, and after
        self.assertIn("compute 550", self.said("Stages. p99"))
        chart = self.one(".chart[aria-label^='Stages']")
        chart.send_keys(Keys.ARROW_LEFT)
        self.assertIn("compute 550", self.said("Stages. p99"))
        self.choose("p50")
        self.assertIn("compute 1.00", self.said("Stages. p50"))

    def painted(self, title):
        """has a chart the colour of one of its series? Another line may cover the first one; a thin one may cover no pixel whole"""
        return self.browser.execute_script("""
            const c = document.querySelector(`.chart[aria-label^="${arguments[0]}"]`);
            const probe = new OffscreenCanvas(c.width, c.height).getContext("2d", {willReadFrequently: true});
            const colours = [0, 1, 2, 3, 4, 5, 6, 7].map((i) => {
                probe.fillStyle = getComputedStyle(c).getPropertyValue(`--label-${i}`);
                probe.fillRect(0, 0, 1, 1);
                return probe.getImageData(0, 0, 1, 1).data;
            });
            probe.clearRect(0, 0, 1, 1);
            probe.drawImage(c, 0, 0);
            const {data} = probe.getImageData(0, 0, c.width, c.height);
            for (let i = 0; i < data.length; i += 4)
                if (data[i + 3] > 80 && colours.some((colour) => [0, 1, 2].every((k) => Math.abs(data[i + k] - colour[k]) < 25))) return true;
            return false;""", title)

    def time(self):
        """of the values that the first chart says"""
        return self.attribute("aria-label", ".chart").partition(". ")[2].partition(": ")[0]

    def test_the_pointer_and_the_arrow_keys_read_a_time(self):
        with self.load():
            self.open_with(FOUR_TIMES)
            self.answered(4)
            chart = self.one(".chart")
            latest = chart.get_attribute("aria-label")
            chart.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
            earlier = chart.get_attribute("aria-label")
            self.assertNotEqual(earlier, latest)
            ActionChains(self.browser).move_to_element_with_offset(chart, chart.size["width"] // 2 - 3, 0).perform()
            self.assertNotEqual(chart.get_attribute("aria-label"), earlier)

    def open_with(self, source):
        """with a script that runs before those of the page"""
        script = self.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
        self.addCleanup(self.browser.execute_cdp_cmd, "Page.removeScriptToEvaluateOnNewDocument", script)
        self.browser.get("about:blank")
        self.open("/#live")

    def answered(self, n):
        """waits until so many answers are drawn"""
        self.wait(lambda: self.browser.execute_script("return window.scrapes") > n, f"{n} answers")

    def allow(self, n):
        self.browser.execute_script("window.allow(arguments[0])", n)
        self.answered(n)

    def test_a_reply_that_is_lost_leaves_a_gap(self):
        self.open_with(LOST)
        self.answered(2)
        self.assertIn("no data", self.said("Requests."))
        self.assertEqual(self.all(".rankings h3"), [])
        self.allow(4)
        self.assertIn("answered", self.said("Requests."))
        self.type(".chart", Keys.ARROW_LEFT)
        self.assertIn("no data", self.said("Requests."))

    def test_metrics_that_are_refused_are_asked_for_again(self):
        self.open_with(REFUSED)
        self.answered(3)
        self.one(".problem-text", "No metrics: too many")
        self.assertIn("no data", self.said("Requests."))
        self.allow(5)
        self.assertIn("answered", self.said("Requests."))
        self.assertEqual(self.text("#view .problem-text"), "")

    def test_a_restart_of_the_server_is_a_gap(self):
        self.open_with(RESTARTED)
        self.answered(5)
        said = []
        for _ in range(4):
            said.append("answered" in self.said("Requests."))
            self.type(".chart", Keys.ARROW_LEFT)
        self.assertEqual(said, [True, False, True, True])

    def test_a_device_has_a_chart_of_its_batches(self):
        self.open("/#live")
        self.one(".rankings h3")
        self.assertFalse(self.one(".chart[aria-label^='Batches']").is_displayed())
        self.open_with(DEVICE)
        self.one(".rankings h3")
        self.assertRegex(self.said("Batches"), r"calls 3(\.0+)?\s?/s, batches 1(\.0+)?\s?/s, failed calls 0\s?/s; 3 calls per batch")

    def test_the_charts_begin_with_the_page_and_go_on_in_other_views(self):
        self.open("/#try?op=gather")
        self.one(".result > *")
        scrapes = "return performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/metrics')).length"
        self.wait(lambda: self.browser.execute_script(scrapes) >= 3)
        self.click(".bar nav a", "Live")
        self.assertNotEqual(self.said("Requests."), "Requests")
        chart = self.one(".chart")
        for _ in range(5):  # no gap
            chart.send_keys(Keys.ARROW_LEFT)
            self.assertRegex(self.said("Requests."), "answered")

    def test_no_requests_have_no_latency_and_the_page_itself_is_no_load(self):
        self.open("/#live")
        self.one(".rankings h3")
        self.wait(lambda: self.said("Latency.").endswith(": none") and self.said("Stages.").endswith(": none"))
        self.wait(lambda: re.search(r"received 0.B/s, sent 0.B/s$", self.said("Bodies.")))

    def test_a_single_error_and_a_single_table_are_named(self):
        with self.load():
            self.open("/#live")
            self.one(".rankings", "busy")
            self.one("figure[aria-label^='Errors'] .legend", "INDEX_OUT_OF_BOUNDS")
            self.one("figure[aria-label^='Tables'] .legend", "busy")
            self.assertRegex(self.said("Errors."), r"INDEX_OUT_OF_BOUNDS [\d.]+")

    def test_bytes_have_round_units_and_charts_of_a_row_one_height(self):
        self.open_with(STAGES)
        self.one(".rankings", "gather")
        tops = self.browser.execute_script("return [...document.querySelectorAll('.charts figure:not([hidden]) canvas')].map((one) => [one.closest('figure').offsetTop, one.offsetTop])")
        for row in {figure for figure, _ in tops}:
            self.assertEqual(len({canvas for figure, canvas in tops if figure == row}), 1)
        self.assertEqual(self.browser.execute_async_script("""
            const done = arguments[arguments.length - 1];
            import("/console/chart.js").then(({roundUp}) => done([900, 1000, 1023, 1500, 3e6].map((value) => roundUp(value * 1024, "bytes") / 1024)));"""),
            [1024, 1024, 1024, 2048, 5 * 1024 ** 2])
        self.assertTrue(self.browser.execute_script("const box = document.querySelector(\"[aria-label='Stages by op'] .scroll\"); return box.scrollWidth <= box.clientWidth"))
