"""Messages are what their type hints say, or are refused."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - type hints of a message are read when it is checked
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray  # noqa: TC002 - type hints of a message are read when it is checked

from udfs.packing import StateError, pack
from udfs.rpc import RefusedError, Request, WireProtocol


@dataclass(frozen=True)
class Part:
    name: str
    visits: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Other:
    name: str


@dataclass(frozen=True)
class Nothing:
    pass


@dataclass(frozen=True)
class Ask(Request[Part | Nothing]):
    count: int = 0
    seconds: float = 0.0
    flag: bool = False
    part: Part | Other | None = None
    maybe: int | None = None
    parts: tuple[Part, ...] = ()
    losses: Mapping[str, list[float]] | None = None
    sums: dict[str, NDArray[np.float64]] | None = None
    params: dict[str, Any] | None = None


PROTOCOL = WireProtocol("test", 3, (Ask,))
FIELDS: dict[str, Any] = dict.fromkeys(("part", "maybe", "losses", "sums", "params")) | {
    "count": 0,
    "seconds": 0.0,
    "flag": False,
    "parts": (),
}


def packed(message: Any, protocol: Any = "test", version: Any = 3, **more: Any) -> bytes:
    envelope = {"protocol": protocol, "version": version, "message": message} | more
    return pack(envelope, lambda value: (value, "numpy") if isinstance(value, np.ndarray) else None)


def ask(**fields: Any) -> bytes:
    return packed({"type": "Ask", "fields": FIELDS | fields})


parts = st.builds(Part, st.text(), st.lists(st.tuples(st.integers(), st.integers())).map(tuple))


@given(
    st.builds(
        Ask,
        count=st.integers(),
        seconds=st.floats(allow_nan=False),
        flag=st.booleans(),
        part=st.none() | parts | st.builds(Other, st.text()),
        maybe=st.none() | st.integers(),
        parts=st.lists(parts).map(tuple),
        losses=st.none() | st.dictionaries(st.text(), st.lists(st.floats(allow_nan=False))),
        params=st.none() | st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.booleans())),
    )
)
def test_a_request_arrives_as_it_was_sent(request: Ask) -> None:
    assert PROTOCOL.decode_request(PROTOCOL.encode(request)) == request


def test_arrays_and_replies_arrive_as_they_were_sent() -> None:
    request = PROTOCOL.decode_request(PROTOCOL.encode(Ask(sums={"loss": np.arange(3.0)})))
    assert isinstance(request, Ask)
    assert request.sums is not None
    np.testing.assert_array_equal(request.sums["loss"], np.arange(3.0))
    for reply in (Part("a", ((1, 2),)), Nothing()):
        assert PROTOCOL.decode_reply(Ask(), PROTOCOL.encode(reply)) == reply


def test_a_float_without_a_fraction_is_a_float() -> None:
    request = PROTOCOL.decode_request(ask(seconds=3))
    assert isinstance(request, Ask)
    assert isinstance(request.seconds, float)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"count": "1"}, r"Ask.count is str, and has to be int"),
        ({"count": True}, r"Ask.count is bool, and has to be int"),
        ({"count": 1.0}, r"Ask.count is float, and has to be int"),
        ({"seconds": None}, r"Ask.seconds is NoneType, and has to be float"),
        ({"flag": 1}, r"Ask.flag is int, and has to be bool"),
        ({"maybe": "1"}, r"Ask.maybe is str, and has to be int \| None"),
        ({"part": {"name": "a"}}, r"Ask.part is dict, and has to be .*Part \| .*Other \| None"),
        ({"part": {"type": "Ask", "fields": {}}}, r"Ask.part is 'Ask', and has to be .*Part"),
        ({"part": {"type": "Part", "fields": {"name": "a"}}}, r"Part has no field 'visits'"),
        ({"part": {"type": "Part", "fields": {"name": "a", "visits": ((1,),)}}}, r"visits\[0\] has 1 entries.* have 2"),
        ({"part": {"type": "Other", "fields": {"name": "a", "x": 1, "b": 2}}}, r"Other has an unknown field 'b', 'x'"),
        ({"part": {"type": "Other", "fields": ["name"]}}, r"Ask.part is 'Other'"),
        ({"parts": []}, r"Ask.parts is list, and has to be tuple"),
        ({"losses": {"loss": (1.0,)}}, r"Ask.losses is dict, and has to be .*Mapping"),
        ({"losses": {1: [1.0]}}, r"Ask.losses is dict"),
        ({"sums": {"loss": np.arange(3)}}, r"Ask.sums is dict, and has to be dict\[str, .*float64"),
        ({"sums": {"loss": [1.0]}}, r"Ask.sums is dict"),
        ({"params": [1]}, r"Ask.params is list"),
        ({"count": {"type": ["x"], "fields": {}}}, r"Ask.count is \['x'\], and has to be int"),
    ],
)
def test_a_field_of_another_type_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        PROTOCOL.decode_request(ask(**fields))


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "malformed"),
        (packed([1]), "malformed"),
        (packed({"type": "Ask"}), "malformed"),
        (packed({"type": ["Ask"], "fields": FIELDS}), "malformed"),
        (packed({"type": "Ask", "fields": [1]}), "is 'Ask', and has to be Ask"),
        (packed({"type": "Ask", "fields": FIELDS}, more=1), "malformed"),
        (pack({"$tensor": "nowhere"}, lambda _: None).replace(b"$pairs", b"$tuple"), "malformed"),
        (packed({"type": "Ask", "fields": {}}, version=4), "version 4, and this side speaks 'test', version 3"),
        (packed({"type": "Ask", "fields": {}}, version="3"), "version '3'"),
        (packed({"type": "Ask", "fields": {}}, protocol="x"), "protocol 'x'"),
        (packed({"type": "Akk", "fields": {}}), "'Akk', which test does not have; did you mean 'Ask'"),
        (packed({"type": "Part", "fields": {}}), "'Part', which test does not have"),
        (packed({"type": "Ask", "fields": {}}), "Ask has no field 'count', 'flag'"),
        (packed({"type": "Ask", "fields": FIELDS | {"more": 1}}), "Ask has an unknown field 'more'"),
    ],
)
def test_a_message_that_is_not_of_the_protocol_is_refused(payload: bytes, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        PROTOCOL.decode_request(payload)


def test_a_reply_to_another_request_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"a message is 'Other', and has to be .*Part \| .*Nothing"):
        PROTOCOL.decode_reply(Ask(), PROTOCOL.encode(Other("a")))


def test_what_is_not_data_is_not_sent() -> None:
    with pytest.raises(StateError, match=r"a Part at message\.fields\.params\.x"):
        PROTOCOL.encode(Ask(params={"x": Part("a", ())}))
