"""HTTPS against a daemon with certificates that are made for it."""
import socket
import ssl
import subprocess
import sys

import numpy as np
import pytest
import tensord
from conftest import LIMIT, ROOT, SHORT, answer, gather
from test_hostile import has_something_to_read

sys.path.append(str(ROOT / "tests" / "http"))
import certificates


@pytest.fixture(scope="module")
def files():
    made = certificates.Folder().authority("authority").authority("other").sign("server", "server")
    return made.sign("client", "client").sign("stranger", "client", authority="other")


@pytest.fixture(scope="module")
def daemon(files, copy_of_sample):
    with tensord.serve(copy_of_sample(), *files.options(client_ca="authority")) as server:
        yield server


def options(files, name="client"):
    return {"ca_file": files.file("authority.pem"), "certificate": (files.file(name + ".pem"), files.file(name + ".key"))}


def test_a_client_with_a_certificate_looks_up_and_stores(daemon, files, using):
    large = np.arange(3_000_000, dtype="f4")

    def use(client):
        rows = yield client.gather("planets", [2, 3])
        yield client.tables["large"].put(large, progress=lambda sent, total: None)
        whole = yield client.tables["large"].get()
        return rows[:, 3].tolist(), np.array_equal(whole, large), len(client.pool.idle)
    assert using(daemon.url, use, **options(files)) == ([1, 2], True, 1)


def test_a_connection_is_used_again(daemon, files, using):
    def use(client):
        yield client.gather("planets", [2])
        first = client.pool.idle[0]
        yield client.gather("planets", [2])
        return list(client.pool.idle) == [first]
    assert using(daemon.url, use, **options(files))


def test_bytes_after_a_reply_are_not_those_of_the_next(false_server, files, using):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.file("server.pem"), files.file("server.key"))

    def smuggle(connection):
        connection.sendall(answer(1, spaces=40_000) + answer(666))  # longer than what is read at once
        connection.recv(1)  # until the client closes it

    def twice(client):
        first = yield client.gather("t", [0])
        yield lambda: has_something_to_read(client)
        return [first.tolist(), (yield client.gather("t", [0])).tolist()]
    assert using(false_server(smuggle, answer(2), tls=context).url, twice, ca_file=files.file("authority.pem")) == [[1], [2]]


def test_a_client_without_a_certificate_or_with_a_strangers_is_refused(daemon, files, using):
    for wrong in ({"ca_file": files.file("authority.pem")}, options(files, "stranger")):
        with pytest.raises((tensord.Forbidden, tensord.Unauthenticated, tensord.ConnectionLost, tensord.ProtocolError)):
            using(daemon.url, lambda client: client.gather("planets", [2]), **wrong, retries=0)


@pytest.mark.parametrize("ca", [None, "other.pem"])
def test_a_daemon_whose_authority_is_not_trusted_is_not_asked_twice(daemon, files, using, clock, ca):
    with pytest.raises(tensord.ConnectionLost, match="(?i)certificate verify failed.*; pass ca_file= \\(--ca-file\\) with"):
        using(daemon.url, gather, ca_file=ca and files.file(ca), retries=10)
    assert not clock.pauses


def test_a_certificate_for_another_name_is_not_accepted(daemon, files, using):
    with pytest.raises(tensord.ConnectionLost, match="(?i)certificate") as caught:
        using(daemon.url.replace("127.0.0.1", "127.1"), gather, **options(files), retries=0)
    assert "ca_file" not in str(caught.value)


@pytest.mark.parametrize("count", [1, 3_000_000])
def test_http_to_a_daemon_with_tls_is_told_what_to_do(daemon, using, count):
    with pytest.raises((tensord.MalformedRequest, tensord.ConnectionLost), match="(a port for HTTPS|serves HTTPS).* https://( in the URL)?$"):
        using(daemon.url.replace("https:", "http:"), lambda client: client.gather(np.zeros(count, "i4"), [0]), retries=0)


@pytest.mark.parametrize("reply", [b"", b"\x15\x03\x03\x00\x02\x02\x16"])
def test_an_alert_of_tls_and_the_end_of_a_new_connection_are_told_what_to_do(false_server, using, reply):
    with pytest.raises((tensord.ConnectionLost, tensord.ProtocolError), match="serves HTTPS.* URL (that )?starts with https://$"):
        using(false_server(reply).url, gather, retries=0)


def test_a_daemon_that_never_shakes_hands_is_a_timeout(using):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        with pytest.raises(tensord.Timeout):
            using(f"https://127.0.0.1:{mute.getsockname()[1]}", gather, timeout=SHORT)


def test_options_of_tls_need_https(files, using):
    with pytest.raises(ValueError, match="https"):
        using("http://127.0.0.1:1", gather, ca_file=files.file("authority.pem"))


def test_a_file_that_is_missing_or_not_pem_is_named_with_the_reason_and_what_is_expected(files, using, tmp_path):
    authority, certificate, key = (files.file(name) for name in ("authority.pem", "client.pem", "client.key"))
    text, missing = tmp_path / "text.pem", str(tmp_path / "missing.pem")
    text.write_text("no certificate")
    cases = (({"ca_file": missing}, FileNotFoundError, f"ca_file: '{missing}' cannot be used: No such file or directory; expected a PEM file with the authority's"),
             ({"ca_file": str(text)}, ssl.SSLError, f"ca_file: '{text}' cannot be used: .*; expected a PEM file with the authority's"),
             ({"ca_file": str(tmp_path)}, IsADirectoryError, f"ca_file: '{tmp_path}' cannot be used: "),
             ({"certificate": (certificate, missing)}, FileNotFoundError, f"certificate: '{missing}' cannot be used: No such file or directory; expected PEM"),
             ({"certificate": (str(text), key)}, ssl.SSLError, f"certificate: '{text}' and '{key}' cannot be used: "),
             ({"certificate": (certificate, files.file("stranger.key"))}, ssl.SSLError, "cannot be used: key values mismatch; expected PEM"))
    for given, kind, message in cases:
        with pytest.raises(kind, match=message):
            using("https://127.0.0.1:1", gather, **{"ca_file": authority, **given})


def test_the_command_line_takes_certificates(daemon, files):
    command = [sys.executable, "-m", "tensord", "--url", daemon.url, "--ca-file", files.file("authority.pem"), "--certificate",
               files.file("client.pem"), "--key", files.file("client.key"), "lookup", "--rows", "planets", "2"]
    assert "5.97" in subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT).stdout


def test_a_server_with_a_certificate_has_an_address_of_https(files):
    certificate, key = files.file("server.pem"), files.file("server.key")
    for given in (["--tls-certificate", certificate, "--tls-key", key], [f"--tls-certificate={certificate}", f"--tls-key={key}"]):
        with tensord.serve(None, *given) as server:
            assert server.url.startswith("https://")
