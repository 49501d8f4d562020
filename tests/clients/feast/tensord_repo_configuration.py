"""The stores that Feast's own tests use (FULL_REPO_CONFIGS_MODULE): tensord, and files as the offline store."""
import os

from tests.universal.feature_repos.universal.data_sources.file import FileDataSourceCreator

STORE = ({"type": "tensord_feast.TensordOnlineStore", "url": os.environ["TENSORD_URL"]}, None)
# Feast runs some tests only with stores of certain names. Three of these names have tests that also apply to tensord: sqlite (types),
# redis (event timestamps, deleted views) and milvus (searches for vectors).
NAMES = ("tensord", "sqlite", "redis", "milvus")


class OneStore(dict):
    def values(self):
        """Returns the store once, so that a test for all stores does not run once for each name."""
        return [STORE]


AVAILABLE_ONLINE_STORES = OneStore.fromkeys(NAMES, STORE)
AVAILABLE_OFFLINE_STORES = [("local", FileDataSourceCreator)]
