"""What a cast is to the conflict relation, and how a batch is parted into casts that may pass each other.

A message is described by what the relation looks at: its type, its items, or both. A *shape* is the set of descriptions in a
cast; two casts conflict if any two of their messages do. Types that conflict with the same are one, and next to a type that
conflicts with more another one says nothing: such casts have the same shape. A cast with more than a few descriptions, or with so
many messages that looking at each would cost more than it gains, has the shape `whole`, which conflicts with everything. So has
every cast of a view without a relation.

Invariants: equal sets of descriptions are one object, so shapes are compared by identity; whether two shapes conflict is asked
once as long as both live; of the shapes with items that nobody refers to only the last ones are kept. Shapes depend on the cast
and the relation alone: all members see the same ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import compress, islice, repeat
from typing import TypeAlias
from weakref import ref

import msgspec

from isotone.model.columns import CODED_MAX, Items, Types, full
from isotone.model.conflicts import Conflicts
from isotone.model.records import Cast
from isotone.protocol.ordering.orderer import Batch

Description: TypeAlias = tuple[str | None, tuple[str, ...] | None]
"""A type and items; null where the relation does not look."""

DESCRIPTIONS_MAX = 4
PARTS_MAX = 4
"""Into so many casts a batch is parted at most."""
LOOKED_AT_MAX = 64
"""The messages of larger batches are not looked at one by one."""
_TYPES_MAX = 16
_MEMO_MAX = 1024
_FORGOTTEN = 32
"""So many of these are forgotten at once."""


class Shape(msgspec.Struct, eq=False, weakref=True):
    """The descriptions of a cast; none for the one that conflicts with everything.

    `items` are those that it touches if it conflicts only with shapes that touch one of them or are vague (None); a vague shape
    may conflict with any. `free`: it conflicts with nothing but `wild` shapes, which are those of messages without a type.
    """

    serial: int
    descriptions: tuple[Description, ...]
    items: tuple[str, ...] | None
    free: bool
    wild: bool
    known: dict[int, bool] = {}  # with which others it conflicts, by their serial


Sketch: TypeAlias = Shape | tuple[str, ...]
"""A shape, or the one item that tells it where the relation goes by items."""


class Shapes:
    """All shapes of one view."""

    def __init__(self, conflicts: Conflicts | None) -> None:
        relation = conflicts if conflicts is not None and conflicts.by != "everything" else None
        self.relation = relation
        self._typed = relation is not None and relation.by != "item"
        self._itemised = relation is not None and relation.by != "operation"
        self._in_order = relation is not None and relation.by == "predicate"  # to which the order of items may say something
        self._by_item = relation is not None and relation.by in ("item", "both")
        self._table = relation.table if relation is not None else {}
        first: dict[frozenset[tuple[str, bool]], str] = {}
        self._twin = {type_: first.setdefault(frozenset(row.items()), type_) for type_, row in self._table.items()}
        self._always = {one for one, _ in relation.always} if relation is not None else set()
        self.frees = not all(self._table.values())  # whether there are types that conflict with nothing
        self._shapes: dict[Hashable, ref[Shape]] = {}  # by their descriptions (a type and items, if there is one), unless known
        self._plain: dict[str | None, Shape] = {}  # those of one type alone; the relation bounds their number
        self.by_items = relation is not None and relation.by == "item"
        self.by_types = self._typed and not self._itemised
        self.known: dict[Hashable, Shape] = {}  # where types say it all by type, or types; `by_items` by items
        self._serial = 0
        self.whole = Shape(0, (), None, False, True)

    def of_batch(self, batch: Batch) -> Shape:
        """The shape of a batch that becomes one cast; what is said about a switch has no number, and conflicts with all."""
        return self.whole if batch.number == 0 else self.of(len(batch.payloads), batch.types, batch.items)

    def of_cast(self, cast: Cast) -> Shape:
        """The shape of a cast. `ConfigError` if a message is none of this relation."""
        return self.of(len(cast.payloads), cast.types, cast.items) if cast.number else self.whole

    def of(self, count: int, types: Types | None, items: Items | None) -> Shape:
        """The shape of `count` messages. `ConfigError` if one is none of this relation."""
        if self.relation is None:
            return self.whole
        if self.by_items:  # most are like this, or like the next
            if items is not None and len(items.values) == 1:
                touched = items.values[0]
                if touched is not None and len(touched) == 1 and touched[0]:
                    return self.known.get(touched) or self.of_item(touched)
        elif types is not None and len(types.values) == 1 and not self._itemised:
            shape = self.known.get(types.values[0])
            if shape is not None:
                return shape
        types, items = types if self._typed else None, items if self._itemised else None
        if items is not None and len(items.values) > 1:
            if count > LOOKED_AT_MAX:
                self.relation.validate_types(types)
                return self.whole
            return self._shape(zip(full(types, count) or repeat(None), full(items, count) or (), strict=False))
        touched = items.values[0] if items else None
        if types is not None and len(types.values) > 1:
            return self._of_types(types, touched)
        type_ = types.values[0] if types else None
        shape = self._one(type_, touched)
        if not self._typed or not self._itemised:
            self._keep(touched if self._itemised else type_, shape)
        return shape

    def glance(self, count: int, types: Types | None, items: Items | None) -> Sketch:
        """What tells the shape of `count` messages later, if it is needed at all. `ConfigError` as `of`."""
        if self.by_items and items is not None and len(items.values) == 1:
            touched = items.values[0]
            if touched is not None and len(touched) == 1 and touched[0]:
                return touched
        return self.of(count, types, items)

    def of_item(self, touched: tuple[str, ...]) -> Shape:
        """The shape of messages that all touch one named item, and that is not among the `known`; where that says it all."""
        kept = self._shapes.get((None, touched))
        shape = kept() if kept is not None else None
        if shape is None:
            self._serial = serial = self._serial + 1
            shape = Shape(serial, ((None, touched),), touched, False, False)
        self._keep(touched, shape)
        return shape

    def _keep(self, key: Hashable, shape: Shape) -> None:
        known = self.known
        known[key] = shape
        if len(known) > _MEMO_MAX:
            for old in list(islice(known, _FORGOTTEN)):
                shape = known.pop(old)
                if self.by_items and len(shape.descriptions) == 1:
                    self._register(shape.descriptions[0], shape)

    def _of_types(self, types: Types, touched: tuple[str, ...] | None) -> Shape:
        """The shape of messages of several types."""
        if self._itemised or len(types.values) > _TYPES_MAX:
            return self._shape([(type_, touched) for type_ in types.distinct])
        values = tuple(types.values)
        shape = self.known.get(values)
        if shape is None:
            shape = self._shape([(type_, None) for type_ in values])
            self._keep(values, shape)
        return shape

    def conflict(self, one: Shape, two: Shape) -> bool:
        """Whether casts of these shapes must keep their order."""
        known = one.known.get(two.serial)
        if known is None:
            known = self._ask(one, two)
            for shape, other in ((one, two), (two, one)):
                if len(shape.known) >= _MEMO_MAX:
                    shape.known.clear()
                shape.known[other.serial] = known
        return known

    def split(self, batch: Batch) -> list[Batch]:
        """The batch in parts, to be multicast in this order: messages that conflict keep theirs.

        What has its numbers already stays together.
        """
        count = len(batch.payloads)
        if self.relation is None or batch.number is not None:
            return [batch]
        types, items = batch.types if self._typed else None, batch.items if self._itemised else None
        mixed = items is not None and len(items.values) > 1
        if not mixed and (types is None or len(types.values) == 1):
            return [batch]
        if count > LOOKED_AT_MAX:
            if mixed or types is None or not 1 < len(types.values) <= DESCRIPTIONS_MAX:
                return [batch]
            shapes = [self._one(type_, items.values[0] if items else None) for type_ in types.values]
            groups = self._groups(list(dict.fromkeys(shapes)))
            if not 1 < len(groups) <= PARTS_MAX:
                return [batch]
            return self._parted(batch, types, [[code for code, shape in enumerate(shapes) if shape in group] for group in groups])
        columns = full(types, count) or repeat(None, count), full(items, count) or repeat(None, count)
        described = [self._one(type_, touched) for type_, touched in zip(*columns, strict=True)]
        kinds = dict.fromkeys(described)
        if len(kinds) == 1:
            return [batch]
        runs = self._runs(described)
        if len(runs) <= PARTS_MAX:
            return [self._part(batch, bytes(index in run for index in range(count))) for run in runs]
        groups = self._gathered(self._groups(list(kinds)))
        if not 1 < len(groups) <= PARTS_MAX:
            return [batch]
        return [self._part(batch, bytes(map(group.__contains__, described))) for group in groups]

    def _gathered(self, groups: list[set[Shape]]) -> list[set[Shape]]:
        """Fewer groups, if they are too many for a part each: as many together as a cast may have descriptions.

        Free shapes stay apart from others: next to one they would have to wait like it.
        """
        if len(groups) <= PARTS_MAX:
            return groups
        found: dict[bool, list[set[Shape]]] = {False: [], True: []}
        for group in groups:
            gathered = found[any(shape.free for shape in group)]
            if gathered and len(gathered[-1]) + len(group) <= DESCRIPTIONS_MAX:
                gathered[-1] |= group
            else:
                gathered.append(set(group))
        return found[False] + found[True]

    def _runs(self, shapes: Sequence[Shape]) -> list[set[int]]:
        """Messages by shape; one joins an earlier part of its shape unless it conflicts with a part after that."""
        parts: list[tuple[Shape, set[int]]] = []
        for index, shape in enumerate(shapes):
            for other, part in reversed(parts):
                if other is shape:
                    part.add(index)
                    break
                if self.conflict(shape, other):
                    parts.append((shape, {index}))
                    break
            else:
                parts.append((shape, {index}))
        return [part for _, part in parts]

    def _groups(self, left: list[Shape]) -> list[set[Shape]]:
        """Shapes that are linked by conflicts are in one group: their messages stay together, in their order."""
        groups: list[set[Shape]] = []
        while left:
            group, found = {left[0]}, [left.pop(0)]
            while found:
                one = found.pop()
                near = [other for other in left if self.conflict(one, other)]
                left = [other for other in left if other not in near]
                group.update(near)
                found += near
            groups.append(group)
        return groups

    def _parted(self, batch: Batch, types: Types, parts: list[list[int]]) -> list[Batch]:
        """A large batch parted by the codes of its types."""
        found: list[Batch] = []
        left = batch.size
        for chosen in parts:
            table = bytearray(CODED_MAX)
            for code in chosen:
                table[code] = 1
            mask = types.codes.translate(table)
            payloads = list(compress(batch.payloads, mask))
            size = sum(map(len, payloads)) if len(found) + 1 < len(parts) else left
            left -= size
            found.append(Batch(payloads, types.only(chosen), batch.items and batch.items.select(mask), size))
        return found

    def _part(self, batch: Batch, mask: bytes) -> Batch:
        payloads = list(compress(batch.payloads, mask))
        types, items = batch.types and batch.types.select(mask), batch.items and batch.items.select(mask)
        return Batch(payloads, types, items, sum(map(len, payloads)))

    def _tuple(self, items: Sequence[str] | None) -> tuple[str, ...] | None:
        if items is None:
            return None
        return tuple(items) if self._in_order or len(items) == 1 else tuple(sorted(items))

    def _type(self, type_: str | None) -> str | None:
        """The type that stands for all that conflict with the same as this one."""
        return self._twin.get(type_, type_) if self._typed and type_ is not None else None

    def _widest(self, descriptions: tuple[Description, ...]) -> tuple[Description, ...]:
        """Of types alone, those that conflict with something that no other of them conflicts with."""
        if (None, None) in descriptions:
            return ((None, None),)
        rows = {one: self._table[one[0]].keys() for one in descriptions if one[0] is not None}
        return tuple(one for one, row in rows.items() if not any(row < other for other in rows.values()))

    def _one(self, type_: str | None, items: Sequence[str] | None) -> Shape:
        """The shape of messages that all say the same."""
        if not self._itemised or (items is None and self._table):
            shape = self._plain.get(type_)
            if shape is None:
                shape = self._plain[type_] = self._shape(((type_, None),))
            return shape
        touched = self._tuple(items)
        if self.by_items and touched is not None and len(touched) == 1 and touched[0]:
            return self.known.get(touched) or self.of_item(touched)
        description = self._type(type_), touched
        return self._known(description, (description,))

    def _shape(self, described: Iterable[tuple[str | None, Sequence[str] | None]]) -> Shape:
        descriptions = tuple({
            (self._type(type_), self._tuple(items) if self._itemised else None): None for type_, items in described
        })  # fmt: skip
        if 1 < len(descriptions) <= _TYPES_MAX and not self._itemised:
            self._validate(descriptions)
            descriptions = self._widest(descriptions)
        if len(descriptions) > DESCRIPTIONS_MAX:
            self._validate(descriptions)
            return self.whole
        if len(descriptions) == 1 and self.by_items:
            return self._one(*descriptions[0])
        return self._known(descriptions[0] if len(descriptions) == 1 else frozenset(descriptions), descriptions)

    def _known(self, key: Hashable, descriptions: tuple[Description, ...]) -> Shape:
        """The one shape of these descriptions."""
        known = self._shapes.get(key)
        shape = known() if known is not None else None
        if shape is None:
            self._validate(descriptions)
            self._serial += 1
            shape = Shape(self._serial, descriptions, *self._nature(descriptions))
            self._register(key, shape)
        return shape

    def _register(self, key: Hashable, shape: Shape) -> None:
        """A shape is found as long as anybody refers to it."""
        if key not in self._shapes:
            forget = self._shapes.pop
            self._shapes[key] = ref(shape, lambda _: forget(key, None))

    def _validate(self, descriptions: Iterable[Description]) -> None:
        assert self.relation is not None
        for type_, items in descriptions:
            self.relation.validate(type_, items)

    def _nature(self, descriptions: Iterable[Description]) -> tuple[tuple[str, ...] | None, bool, bool]:
        """What such a shape touches, whether it is free, and whether it is wild."""
        free, wild = self.frees, False
        touched: list[str] | None = [] if self._by_item else None
        for type_, items in descriptions:
            if self._table:
                wild = wild or type_ is None
                free = free and type_ is not None and not self._table[type_]
                if type_ is None or type_ in self._always:
                    touched = None
            if touched is not None:
                touched = touched + list(items) if items is not None else None
        return tuple(dict.fromkeys(touched)) if touched is not None else None, free, wild

    def _ask(self, one: Shape, two: Shape) -> bool:
        relation = self.relation
        if relation is None or not one.descriptions or not two.descriptions:
            return True
        return any(relation.conflict(*a, *b) for a in one.descriptions for b in two.descriptions)
