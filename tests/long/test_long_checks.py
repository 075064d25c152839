"""The scan against the oracle on many generated histories, without Spark."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from isotone.pipeline import scan
from tests.pipeline.generate import RELATIONS
from tests.spark import local_stage
from tests.spark.compare import WAYS, disagreements, histories, write

pytestmark = pytest.mark.long


@pytest.mark.parametrize("seed", range(100, 140))
def test_generated_histories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    local_stage.install(monkeypatch)
    runs = histories(250, seed)
    write(tmp_path, [row for rows in runs.values() for row in rows])
    for name, way in WAYS.items():
        monkeypatch.setattr(scan, "BLOCK_BITS", 1 + seed % 3 if name == "kernels" else 12)
        assert disagreements(tmp_path, runs, RELATIONS[seed % len(RELATIONS)], object(), **way) == [], name
