"""Which files a path, a glob or a URI names: as `read_trace` has it."""

from pathlib import Path

import pytest

from isotone.model.errors import TraceFormatError
from isotone.pipeline.plan import filesystem, make_plan
from isotone.trace import read_trace

ROW = '{"process": "%s#1", "step": 1, "kind": "stop"}\n'
FILES = ("a.jsonl", "b.jsonl", "x/c.jsonl", "x/y/d.jsonl", "x/y/e.txt", "x.jsonl/f.jsonl", "g[1]/g.jsonl", ".h.jsonl")
GLOBS = (
    "*.jsonl",
    "**/*.jsonl",
    "x/*",
    "x/**",
    "**",
    "?.jsonl",
    "[!a].jsonl",
    "[ab].jsonl",
    "*/y/*.jsonl",
    "x/*.jsonl",
    "g[1]",
    "**/y",
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / "some.dir" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ROW % path.stem)
    return tmp_path / "some.dir"


def planned(given: str) -> list[str]:
    try:
        return sorted(Path(source.path.partition("?")[0]).stem for source in make_plan([given]).sources)
    except TraceFormatError:
        return []


@pytest.mark.parametrize("glob", GLOBS)
def test_globs_name_what_the_reader_reads(place: Path, glob: str) -> None:
    given = place / glob
    try:
        read = sorted(row["process"].partition("#")[0] for row in read_trace([given]).rows)
    except TraceFormatError:
        read = []
    assert planned(str(given)) == read


def test_a_uri_keeps_its_options_and_may_be_a_glob(place: Path) -> None:
    uri = place.as_uri()
    assert planned(uri) == planned(str(place))
    assert planned(f"{uri}/x/*.jsonl") == ["c"]
    assert planned(f"{uri}/x/**") == ["c", "d"]


def test_options_of_an_object_store_are_no_glob(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """`?` begins the options of a URI; every file found keeps them."""
    asked: list[str] = []

    def local(uri: str) -> tuple[object, str]:
        asked.append(uri)
        return filesystem(str(place) + uri.partition("?")[0].removeprefix("s3://bucket/traces"))

    monkeypatch.setattr("isotone.pipeline.plan.filesystem", local)
    sources = make_plan(["s3://bucket/traces/x?region=eu-central-1"]).sources
    assert [source.path for source in sources] == [
        "s3://bucket/traces/x/c.jsonl?region=eu-central-1",
        "s3://bucket/traces/x/y/d.jsonl?region=eu-central-1",
    ]
    assert all(uri.endswith("?region=eu-central-1") for uri in asked)
