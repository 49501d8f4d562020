"""Live: what the server does, drawn from /metrics."""
import threading

from browser import BrowserTest


class Live(BrowserTest):
    def test_requests_latency_and_tables_are_drawn(self):
        stop = threading.Event()

        def load():
            with self.client() as client:
                client.request("PUT", "/v1/tensors/busy", [[1, 2], [3, 4]])
                while not stop.is_set():
                    client.request("POST", "/v1/tensors/busy/gather", {"indices": [1, 0, 1]})
                    client.request("POST", "/v1/gather", {"params": [1], "indices": [5]})
                client.request("DELETE", "/v1/tensors/busy")
        thread = threading.Thread(target=load)
        thread.start()
        try:
            self.open("/#live")
            self.one(".rankings", "busy")
            self.one(".rankings", "422")
            chart = self.one(".chart[aria-label^='Requests.']").get_attribute("aria-label")
            self.assertRegex(chart, r"answered [\d.]+.?k?/s, refused or failed [\d.]+")
            self.assertNotRegex(chart, r"answered 0")
            self.assertRegex(self.one(".chart[aria-label^='Latency.']").get_attribute("aria-label"), r"half of all [\d.]+.[µm]s, 99 of 100")
            painted = self.browser.execute_script("const c = document.querySelector('.chart'); return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v)")
            self.assertTrue(painted)
        finally:
            stop.set()
            thread.join()

    def test_another_view_ends_the_scrapes(self):
        self.open("/#live")
        self.one(".charts")
        self.browser.execute_script("location.hash = 'try'")
        self.one(".result > *")
        self.drain()
        self.browser.execute_script("window.before = performance.getEntriesByType('resource').length")
        self.browser.implicitly_wait(0)
        threading.Event().wait(4.5)
        self.assertFalse(self.browser.execute_script("return performance.getEntriesByType('resource').slice(window.before).some((e) => e.name.includes('/metrics'))"))
