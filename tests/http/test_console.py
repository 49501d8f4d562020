"""The web console: its page and files, their headers, and --console."""
import re, zlib

from daemon import *

FILES = ("index.html", "style.css", "main.js", "icon.svg")


class Console(HttpTest):
    def test_the_page_and_its_files_are_served(self):
        for path, kind in (("/", "text/html; charset=utf-8"), ("/docs", "text/html; charset=utf-8"), ("/console/style.css", "text/css; charset=utf-8"),
                           ("/console/main.js", "text/javascript; charset=utf-8"), ("/console/icon.svg", "image/svg+xml"), ("/console/program_examples.json", "application/json")):
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


class Compressed(HttpTest):
    options = ("--compress",)
    PATHS = ("/", "/docs", "/console/main.js", "/console/style.css", "/openapi.json")

    def fetch(self, path, accept, listed=None, method="GET"):
        headers = {} if accept is None else {"Accept-Encoding": accept}
        return self.request(method, path, None, headers if listed is None else {**headers, "If-None-Match": listed})

    def assertEncoded(self, reply, encoding, plain):
        self.assertStatus(reply, 200)
        self.assertEqual(reply.headers.get("Content-Encoding"), encoding)
        self.assertEqual(reply.headers["Vary"], "Accept-Encoding")
        self.assertEqual(reply.headers["Content-Type"], plain.headers["Content-Type"])
        body = reply.body if encoding is None else zlib.decompress(reply.body, 31 if encoding == "gzip" else 15)
        self.assertEqual(body, plain.body)

    def test_each_form_has_its_bytes_and_its_tag(self):
        for path in self.PATHS:
            plain = self.fetch(path, None)
            tags = set()
            for accept, encoding in (("gzip", "gzip"), ("deflate", "deflate"), ("gzip, deflate, br, zstd", "gzip"), ("gzip;q=0.5, deflate", "deflate"),
                                     ("identity", None), ("br", None), ("gzip;q=0", None), ("", None), ("*", "gzip"), (",;q=,gzip;q=x", "gzip"), ("g" * 8000, None)):
                for _ in range(2):  # compressed, and kept
                    with self.subTest(path=path, accept=accept[:40]):
                        reply = self.fetch(path, accept)
                        self.assertEncoded(reply, encoding, plain)
                        tags.add((encoding, reply.headers["ETag"]))
                        head = self.fetch(path, accept, method="HEAD")
                        self.assertEqual((head.body, head.headers["Content-Length"], head.headers["ETag"], head.headers.get("Content-Encoding")),
                                         (b"", str(len(reply.body)), reply.headers["ETag"], encoding))
            tag = plain.headers["ETag"]
            self.assertEqual(tags, {(None, tag), ("gzip", tag[:-1] + '-gzip"'), ("deflate", tag[:-1] + '-deflate"')})

    def test_a_client_that_has_a_form_that_it_accepts_gets_304(self):
        for path in self.PATHS:
            plain, gzip, deflate = (self.fetch(path, accept).headers["ETag"] for accept in (None, "gzip", "deflate"))
            for accept, listed, tag in (("gzip", gzip, gzip), ("gzip", "W/" + gzip, gzip), ("gzip", plain, plain), ("gzip", "*", gzip), ("gzip", f"{plain}, {gzip}", gzip),
                                        ("gzip", f'"x" ,, {deflate},{plain}', plain), ("deflate", deflate, deflate), (None, plain, plain), (None, "*", plain)):
                with self.subTest(path=path, accept=accept, listed=listed):
                    reply = self.fetch(path, accept, listed)
                    self.assertEqual((reply.status, reply.body, reply.headers["ETag"], reply.headers["Vary"]), (304, b"", tag, "Accept-Encoding"))
                    self.assertIsNone(reply.headers.get("Content-Encoding"))
            for accept, listed in (("gzip", deflate), (None, gzip), ("identity", f"{gzip}, {deflate}"), ("gzip", plain[:-1] + '-zstd"'), ("gzip", ", ".join(['"x"'] * 1000))):
                with self.subTest(path=path, accept=accept, listed=listed[:80]):
                    self.assertStatus(self.fetch(path, accept, listed), 200)
            for listed in ("x", gzip[:-1], '"a" "b"'):
                self.assertProblem(self.fetch(path, "gzip", listed), 400, "MALFORMED_REQUEST")

    def test_a_refusal_is_not_compressed(self):
        for path in ("/console/x.js", "/console/" + "x" * 2000):
            reply = self.fetch(path, "gzip")
            self.assertProblem(reply, 404, "NOT_FOUND")
            self.assertIsNone(reply.headers.get("Content-Encoding"))


class NotCompressed(HttpTest):
    def test_without_the_option_there_is_one_form(self):
        for path in Compressed.PATHS:
            reply = self.get(path, {"Accept-Encoding": "gzip"})
            self.assertEqual((reply.headers.get("Content-Encoding"), reply.headers.get("Vary")), (None, None))
            self.assertStatus(self.get(path, {"If-None-Match": reply.headers["ETag"][:-1] + '-gzip"'}), 200)


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
