"""What every local test is given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local import s3_server
from tests.local.harness import Bireme, bireme_in


@pytest.fixture
def bireme(tmp_path: Path) -> Iterator[Bireme]:
    with bireme_in(tmp_path) as command:
        yield command


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server.served(tmp_path_factory.mktemp("weed")) as endpoint:
        yield endpoint


@pytest.fixture
def s3_prefix(s3_endpoint: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A prefix of its own, and the variables by which it is reached."""
    for name, value in s3_server.settings(s3_endpoint).items():
        monkeypatch.setenv(name, value)
    url = f"s3://bucket/{request.node.name}"
    s3_server.wait_until_served(url)
    return url
