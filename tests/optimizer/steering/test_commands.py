"""Documents of commands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import InvalidArgumentError
from optimizer.steering import (
    Add,
    Clone,
    End,
    Extend,
    Pause,
    Prioritise,
    Resume,
    Stop,
    command_document,
    command_name,
    command_trial,
    read_command,
)

IDS = st.from_regex(r"c[0-9]{3}", fullmatch=True)
COUNTS = st.none() | st.integers(1, 99)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
PLAIN = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)
PARAMS = st.dictionaries(st.text(min_size=1), PLAIN, min_size=1, max_size=3)
COMMANDS = st.one_of(
    st.builds(Add, PARAMS, COUNTS),
    st.builds(Clone, IDS, PARAMS, COUNTS, COUNTS),
    st.builds(Extend, IDS, st.integers(1, 99)),
    *(st.builds(kind, IDS) for kind in (Stop, Pause, Resume, Prioritise)),
    st.just(End()),
)


@given(COMMANDS)
def test_a_command_survives_json(command: Any) -> None:
    assert read_command(json.loads(json.dumps(command_document(command)))) == command


def test_the_document_of_a_clone_has_all_fields() -> None:
    written = {"command": "clone", "trial": "c003", "params": {"lr": 0.1}, "epoch": None, "epochs": None}
    assert command_document(Clone("c003", {"lr": 0.1})) == written
    assert (command_name(Clone("c003", {})), command_trial(Clone("c003", {}))) == ("clone", "c003")
    assert command_trial(Add({})) is None


def test_optional_fields_may_be_missing() -> None:
    assert read_command({"command": "clone", "trial": "c003"}) == Clone("c003", {})
    assert read_command({"command": "add", "params": {"lr": 1}}) == Add({"lr": 1})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "document of a command must be a mapping, got \\[\\]"),
        (
            {"command": "extend", "trial": "c003"},
            "epochs must be a whole number of at least 1, got None. It is the number",
        ),
        ({}, "command must be one of add, .*, got None"),
        ({"command": ["add"]}, "command must be one of add"),
        ({"command": "stopp", "trial": "c000"}, "got 'stopp'; did you mean 'stop'"),
        ({"command": "stop"}, "trial must be the id of a configuration such as 'c003', got None"),
        ({"command": "stop", "trial": 3}, "trial must be the id of a configuration .*, got 3"),
        ({"command": "stop", "trial": "c" * 200}, "trial must be the id"),
        ({"command": "stop", "trial": "c000", "trail": 1}, "fields of stop must be among trial, got 'trail'; did you"),
        ({"command": "end", "trial": "c000"}, "fields of end must be among none, got 'trial'"),
        ({"command": "add"}, "params must be a mapping of names to values, got None"),
        ({"command": "add", "params": {}}, "params must be a mapping of names to values, got {}"),
        ({"command": "add", "params": {"lr": float("nan")}}, "params must be JSON data .*, got 'lr': nan"),
        ({"command": "add", "params": {"lr": {1: 2}}}, "params must be JSON data"),
        ({"command": "add", "params": {"lr": 1}, "epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
        ({"command": "add", "params": {"lr": 1}, "epochs": True}, "epochs must be a whole number"),
        ({"command": "clone", "trial": "c000", "params": 3}, "params must be a mapping"),
        ({"command": "clone", "trial": "c000", "epoch": "2"}, "epoch must be a whole number of at least 1, got '2'"),
    ],
)
def test_an_invalid_document_names_its_field(document: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        read_command(document)


def test_a_message_stays_short() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read_command({"command": "add", "params": "x" * 10_000_000})
    assert len(str(caught.value)) < 400
