"""Clients of Unix sockets."""
import os
import shutil
import tempfile

import pytest
import tensord
from conftest import gather


@pytest.fixture(scope="module")
def path():
    """in a folder with a short name, because the path has at most 107 bytes"""
    folder = tempfile.mkdtemp(prefix="tensord-")
    yield os.path.join(folder, "a b%20.sock")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(path, copy_of_sample):
    with tensord.serve(copy_of_sample(), listen="unix:" + path) as one:
        yield one


@pytest.mark.parametrize("prefix", ["unix://", "unix:"])
def test_ops_and_tables_over_a_unix_socket(server, path, using, prefix):
    assert using(prefix + path, lambda client: client.gather([3, 4, 5], [2])).tolist() == [5]
    assert using(prefix + path, lambda client: client.tables["planets"].info())["dtype"] == "float32"


def test_a_large_body_over_a_unix_socket(server, path, using):
    assert using("unix://" + path, lambda client: client.gather(list(range(300_000)), [299_999])).tolist() == [299_999]


def test_serve_has_a_client_of_its_socket(server, path):
    assert server.url == "unix:" + path
    assert server.client.gather([3, 4, 5], [0]).tolist() == [3]


def test_a_socket_that_does_not_exist_is_named(path, using):
    with pytest.raises(tensord.ConnectionLost, match="unix:/no/such/socket: .*; no daemon listens there"):
        using("unix:///no/such/socket", gather, retries=0)


@pytest.mark.parametrize("url", ["unix:tensord.sock", "unix://tensord.sock", "unix:", "unix://", "unix:@tensord"])
def test_a_path_is_absolute(url):
    with pytest.raises(ValueError, match="expected unix:///PATH with an absolute path"):
        tensord.Client(url)


def test_tls_is_for_https_only(path):
    with pytest.raises(ValueError, match="https://"):
        tensord.Client("unix://" + path, ca_file="ca.pem")
