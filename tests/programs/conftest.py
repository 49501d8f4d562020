"""A daemon for all tests of programs."""
import pytest
import tensord


@pytest.fixture(scope="session")
def client():
    with tensord.serve() as server:
        yield server.client
