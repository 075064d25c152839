"""Conflict relations: what they say, what the file format refuses, and when two say the same."""

from collections.abc import Sequence
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.model.conflicts import Conflicts, conflicts_from, load_conflicts
from isotone.model.errors import ConfigError

COUNTER = {"by": "operation", "operations": {"update": ["update", "increment", "decrement"], "increment": [], "decrement": []}}
DOCUMENT = """
by = "both"

[operations]
insert = ["insert", "update", "delete"]
update = ["update", "delete"]
delete = ["delete"]

[always]
scroll = ["scroll"]
"""


def test_everything_conflicts_by_default() -> None:
    assert Conflicts().conflict("a", ["x"], "b", ["y"])
    assert Conflicts().conflict(None, None, None, [])


def test_by_item() -> None:
    relation = conflicts_from({"by": "item"})
    assert relation.conflict("a", ["x", "y"], "b", ["y", "z"])
    assert not relation.conflict("a", ["x"], "a", ["y"])
    assert relation.conflict(None, ["x"], None, ["x"])
    assert not relation.conflict(None, ["x"], None, ["y"])
    assert relation.conflict("a", None, "b", ["y"])
    assert not relation.conflict("a", [], "b", ["y"])


def test_by_operation_is_symmetric_and_no_equivalence() -> None:
    relation = conflicts_from(COUNTER)
    conflicting = {
        pair
        for pair in combinations_with_replacement(("decrement", "increment", "update"), 2)
        if relation.conflict(pair[0], None, pair[1], ["x"])
    }
    assert conflicting == {("decrement", "update"), ("increment", "update"), ("update", "update")}
    assert relation.conflict("update", [], "increment", []) == relation.conflict("increment", [], "update", []) is True
    assert relation.conflict(None, None, "increment", None)


def test_the_shared_document_of_the_paper(tmp_path: Path) -> None:
    """§3.2: operations on the same object conflict; scrolling conflicts with scrolling only."""
    file = tmp_path / "document.toml"
    file.write_text(DOCUMENT)
    relation = load_conflicts(file)
    edits = ("insert", "update", "delete")
    for one, other in product(edits, edits):
        assert relation.conflict(one, ["x"], other, ["x"])
        assert not relation.conflict(one, ["x"], other, ["y"])
    assert relation.conflict("scroll", [], "scroll", [])
    assert not any(relation.conflict("scroll", ["x"], other, ["x"]) for other in edits)
    assert relation.conflict("insert", None, "delete", ["x"])
    assert not relation.conflict("scroll", None, "insert", None)


def test_undeclared_type_of_a_message() -> None:
    relation = conflicts_from(COUNTER)
    with pytest.raises(ConfigError, match=r"unknown message type 'updat': did you mean 'update'\?"):
        relation.conflict("updat", None, "update", None)
    with pytest.raises(ConfigError, match="unknown message type 'updat'"):
        relation.validate("updat", None)
    relation.validate(None, None)


def test_item_without_a_name() -> None:
    with pytest.raises(ConfigError, match="an item of a message has no name"):
        conflicts_from({"by": "item"}).validate("a", ["x", ""])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "by is missing: say one of item, operation, both"),
        ('by = "itm"', "unknown value of by 'itm': did you mean 'item'?"),
        ("by = 3", "unknown value of by '3'"),
        ('by = "item"\nitems = ["x"]', "unknown key 'items'"),
        ('by = "item"\n[operations]\na = []', "the table operations has no place here"),
        ('by = "operation"\n[operations]\na = []\n[always]\na = []', "the table always has no place here"),
        ('by = "operation"', "needs a table operations"),
        ('by = "operation"\n[operations]', "declares no type"),
        ('by = "operation"\noperations = 3', "operations must be a table"),
        ('by = "operation"\n[operations]\nupdate = "update"', "operations.update must be a list of types"),
        ('by = "operation"\n[operations]\nupdate = [1]', "operations.update must be a list of types"),
        ('by = "operation"\n[operations]\nupdate = ["updte"]', "unknown type 'updte': did you mean 'update'?"),
        ('by = "operation"\n[operations]\n"" = []', "a type in operations has no name"),
        ('by = "both"\n[operations]\na = []\n[always]\nb = ["c"]', "unknown type 'c'"),
        ("by = ", "Invalid value"),
        ('by = "predicate"', "declare it in Python, with Conflicts.by_predicate"),
        ('by = "everything"', "leave it out"),
    ],
)
def test_bad_file_is_one_line_that_names_it(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_conflicts(file)
    assert words in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"update": None}, "operations.update must be a list of types"),
        ({"update": 3}, "operations.update must be a list of types"),
        ({"a": [1, "b"]}, "operations.a must be a list of types"),
        ({1: []}, "1 in operations is no type: must be a text"),
        (["update"], "operations must be a table"),
    ],
)
def test_a_bad_table_is_one_line(table: Any, words: str) -> None:
    for declare in (Conflicts.by_operation, Conflicts.by_both):
        with pytest.raises(ConfigError) as caught:
            declare(table)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def test_name_and_version_of_a_predicate_are_texts() -> None:
    for name, version in ((3, ""), ("numbered", 1), ("", "")):
        with pytest.raises(ConfigError, match="needs a name, and a version if you like: texts"):
            Conflicts.by_predicate(name, lambda *_: True, version)  # type: ignore[arg-type]


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_conflicts(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="Is a directory"):
        load_conflicts(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not text in UTF-8"):
        load_conflicts(tmp_path / "binary.toml")


def test_digest_says_whether_two_relations_say_the_same() -> None:
    one = conflicts_from({"by": "operation", "operations": {"a": ["b"], "b": []}})
    same = conflicts_from({"by": "operation", "operations": {"b": ["a"], "a": []}})
    other = conflicts_from({"by": "operation", "operations": {"a": ["b"], "b": ["b"]}})
    assert one.digest == same.digest != other.digest
    assert Conflicts().digest[:16] == "c7500541bf69b5c1"  # the same on every machine


def test_a_predicate_is_asked_both_ways_and_where_it_fails_messages_conflict() -> None:
    def below(type_a: str | None, items_a: Sequence[str] | None, type_b: str | None, items_b: Sequence[str] | None) -> bool:
        return (items_a or [])[0] < (items_b or [])[0]

    relation = Conflicts.by_predicate("below", below, "1")
    assert relation.conflict(None, ["x"], None, ["y"])
    assert relation.conflict(None, ["y"], None, ["x"])
    assert not relation.conflict(None, ["x"], None, ["x"])
    assert relation.conflict(None, None, None, ["x"])
    relation.validate(None, ["x"])
    with pytest.raises(
        ConfigError, match=r"conflict predicate 'below', version '1' fails for type None and items None: list index"
    ):
        relation.validate(None, None)
    with pytest.raises(ConfigError, match="another function is known already as the conflict predicate 'below', version '1'"):
        Conflicts.by_predicate("below", lambda *_: True, "1")
    assert relation == Conflicts.by_predicate("below", below, "1") == Conflicts("predicate", name="below", version="1")
    assert relation.digest != Conflicts("predicate", name="below").digest
    with pytest.raises(ConfigError, match="the conflict predicate 'below' is not known here"):
        Conflicts("predicate", name="below").conflict(None, ["x"], None, ["y"])


def test_the_constructors_say_what_files_say() -> None:
    assert Conflicts.by_item() == conflicts_from({"by": "item"})
    assert Conflicts.by_operation({"update": {"update", "increment", "decrement"}, "increment": (), "decrement": ()}) == (
        conflicts_from(COUNTER)
    )
    assert Conflicts.by_both({"insert": ["insert"]}, always={"scroll": ["scroll"]}) == conflicts_from(
        {"by": "both", "operations": {"insert": ["insert"]}, "always": {"scroll": ["scroll"]}}
    )
    with pytest.raises(ConfigError, match=r"operations\.update must be a list of types"):
        Conflicts.by_operation({"update": "update"})


TYPES = ("a", "b", "c")
tables = st.dictionaries(st.sampled_from(TYPES), st.lists(st.sampled_from(TYPES)), max_size=3)
messages = st.tuples(st.none() | st.sampled_from(TYPES), st.none() | st.lists(st.sampled_from("xyz"), max_size=2))


@given(tables, tables, messages, messages)
def test_every_relation_is_symmetric(
    operations: dict[str, list[str]],
    always: dict[str, list[str]],
    one: tuple[str | None, list[str] | None],
    two: tuple[str | None, list[str] | None],
) -> None:
    declared = {name: [] for name in TYPES} | operations
    relation = conflicts_from({"by": "both", "operations": declared, "always": always})
    assert relation.conflict(*one, *two) == relation.conflict(*two, *one)
    if one[0] is None or two[0] is None:
        assert relation.conflict(*one, *two)
    assert relation.is_canonical()
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(relation), type=Conflicts) == relation
