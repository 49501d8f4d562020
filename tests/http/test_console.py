"""The web console: its page and files, their headers, and --console."""
import re

from daemon import *

FILES = ("index.html", "style.css", "main.js", "icon.svg")


class Console(HttpTest):
    def test_the_page_and_its_files_are_served(self):
        for path, kind in (("/", "text/html; charset=utf-8"), ("/docs", "text/html; charset=utf-8"), ("/console/style.css", "text/css; charset=utf-8"),
                           ("/console/main.js", "text/javascript; charset=utf-8"), ("/console/icon.svg", "image/svg+xml")):
            with self.subTest(path):
                reply = self.get(path)
                self.assertStatus(reply, 200)
                self.assertEqual(reply.headers["Content-Type"], kind)
                self.assertEqual(reply.headers["X-Content-Type-Options"], "nosniff")
                self.assertEqual(reply.headers["Cross-Origin-Opener-Policy"], "same-origin")
                self.assertTrue(reply.headers["Content-Security-Policy"].startswith("default-src 'self'; "))
                self.assertNotIn("unsafe", reply.headers["Content-Security-Policy"])
                head = self.request("HEAD", path)
                self.assertEqual((head.status, head.body, head.headers["Content-Length"]), (200, b"", str(len(reply.body))))

    def test_what_a_browser_has_is_not_sent_again(self):
        for path in ("/", "/docs", "/console/main.js"):
            etag = self.get(path).headers["ETag"]
            for listed in (etag, f'"x", {etag}', "W/" + etag, "*"):
                reply = self.get(path, {"If-None-Match": listed})
                self.assertEqual((reply.status, reply.body, reply.headers["ETag"]), (304, b"", etag))
            self.assertStatus(self.get(path, {"If-None-Match": '"x"'}), 200)
            self.assertProblem(self.get(path, {"If-None-Match": "x"}), 400, "MALFORMED_REQUEST")

    def test_every_file_that_the_page_names_is_there(self):
        seen, left = set(), {"/"}
        while left:
            path = left.pop()
            seen.add(path)
            text = self.get(path).body.decode()
            named = re.findall(r'(?:href|src)="(/console/[^"]+)"', text)
            named += ["/console/" + name for name in re.findall(r'(?:from |import\()"\./([^"]+)"', text)]
            left |= set(named) - seen
            self.assertStatus(self.get(path), 200)
        self.assertGreater(len(seen), 15)

    def test_nothing_else_is_there(self):
        for path in ("/console/", "/console/x.js", "/console/..", "/console/%2e%2e%2fconsole.c", "/console/page", "/docs/", "/index.html", "/console/main.js/"):
            with self.subTest(path):
                self.assertProblem(self.get(path), 404, "NOT_FOUND")
        self.assertProblem(self.get("/console/main.js%00"), 400, "MALFORMED_REQUEST")
        self.assertProblem(self.request("POST", "/", b"x"), 405, "METHOD_NOT_ALLOWED")

    def test_links_of_other_sites_lead_to_the_page_and_to_nothing_else(self):
        cross = {"Sec-Fetch-Site": "cross-site"}
        for path in ("/", "/docs", "/?x=1"):
            self.assertStatus(self.get(path, cross), 200)
        for path in ("/console/main.js", "/v1/ops", "/readyz"):
            self.assertProblem(self.get(path, cross), 403, "FORBIDDEN")
        self.assertProblem(self.request("POST", "/", b"x", cross), 403, "FORBIDDEN")
        self.assertProblem(self.get("/", {"Host": "evil.example"}), 403, "FORBIDDEN")

    def test_the_page_loads_nothing_from_elsewhere(self):
        for path in ["/"] + ["/console/" + name for name in FILES]:
            text = self.get(path).body.decode()
            self.assertEqual(re.findall(r'(?:src|href|url\(|import)\W{0,3}(?:https?:)?//', text), [])
        html = self.get("/").body.decode()
        self.assertEqual(re.findall(r"<script(?![^>]*src=)|<style| on\w+=| style=", html), [])


class Modes(HttpTest):
    def mode(self, *options):
        with Daemon(*options) as daemon, Client(daemon) as client:
            reply = client.request("GET", "/")
            return reply.status, re.findall(r'data-console="([^"]*)"', reply.body.decode()), reply.headers.get("ETag"), client.request("GET", "/console/main.js").status

    def test_on_read_only_and_off(self):
        on, read_only, off = self.mode(), self.mode("--console", "read-only"), self.mode("--console", "off")
        self.assertEqual((on[0], on[1], on[3]), (200, ["on"], 200))
        self.assertEqual((read_only[0], read_only[1], read_only[3]), (200, ["read-only"], 200))
        self.assertNotEqual(on[2], read_only[2])
        self.assertEqual((off[0], off[3]), (404, 404))
