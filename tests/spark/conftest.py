"""One Spark session for all tests below."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    from isotone.pipeline.session import open_session

    session = open_session("local[2]", settings={"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()
