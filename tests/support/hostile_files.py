"""Files that try to run code, to read another file or to write one, when the project opens them."""

from __future__ import annotations

import base64
import importlib
import io
import json
import marshal
import os
import pickle
import struct
import warnings
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn

from udfs.handlers import framework

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

__all__ = ["Hostile", "corpus", "program", "unzipped", "zipped"]


@dataclass(frozen=True, slots=True)
class Hostile:
    """A file, and the door of the project that is to refuse it.

    Parameters
    ----------
    name : str
        Of the attack.
    door : str
        As ``tests/hostile/opener.py`` calls it.
    data : bytes
    harmless : bool
        Whether the door leaves the attack's part out and opens the rest, as it does for what no network needs.
    """

    name: str
    door: str
    data: bytes
    harmless: bool = False


@dataclass(frozen=True, slots=True)
class Payload:
    """Code that leaves a mark.

    Parameters
    ----------
    mark : Path
        A file that is there once the code has run.
    """

    mark: Path

    @property
    def command(self) -> str:
        """For a shell."""
        return f"touch {self.mark}"

    @property
    def expression(self) -> str:
        """For Python's ``eval``."""
        return f"__import__('os').system('{self.command}')"

    @property
    def pickle(self) -> bytes:
        """A pickle that runs the command when it is read."""
        return pickle.dumps(self, protocol=2)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def corpus(folder: Path) -> Iterator[Hostile]:
    """Make all files.

    Parameters
    ----------
    folder : Path
        ``folder / "ran"`` is made by every attack that succeeds; ``folder / "secret.h5"`` and ``folder / "secret"`` are
        files that none may read.
    """
    payload = Payload(folder / "ran")
    yield from _weights(payload)
    yield from _safetensors()
    yield from _programs(payload)
    yield from _keras(payload, folder)
    yield from _documents()
    yield from _shards(payload)


def zipped(members: Mapping[str, bytes], *, method: int = zipfile.ZIP_STORED) -> bytes:
    """Make an archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def unzipped(archive: bytes) -> dict[str, bytes]:
    """Open an archive."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def _weights(payload: Payload) -> Iterator[Hostile]:
    buffer = io.BytesIO()
    torch.save({"weight": torch.ones(3)}, buffer)
    members = unzipped(buffer.getvalue())
    for name in members:
        if "/data/" not in name:  # numbers; any bytes are some
            pickled = {**members, name: payload.pickle}
            harmless = not name.endswith(("data.pkl", "/version", "/byteorder"))
            yield Hostile(f"pickle in {name}", "weights", zipped(pickled), harmless)
    legacy = io.BytesIO()
    torch.save({"weight": payload}, legacy, _use_new_zipfile_serialization=False)
    yield Hostile("pickle of torch before 1.6", "weights", legacy.getvalue())
    yield Hostile("bare pickle", "weights", payload.pickle)
    arrays = io.BytesIO()
    np.savez(arrays, weight=np.array([payload], dtype=object))
    yield Hostile("pickle in .npz", "weights", arrays.getvalue())
    scripted = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(torch.nn.ReLU(), torch.ones(2)), scripted)
    yield Hostile("torch.jit's archive", "weights", scripted.getvalue())


def _safetensors() -> Iterator[Hostile]:
    def made(header: object, data: bytes = bytes(16), *, length: int | None = None) -> bytes:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text) if length is None else length) + text + data

    entry: dict[str, Any] = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
    yield Hostile("header longer than the file", "weights", made({"w": entry}, length=1 << 40))
    yield Hostile("header of the largest length", "weights", made({"w": entry}, length=(1 << 64) - 1))
    yield Hostile("header that is not JSON", "weights", made(b"{" * 64))
    yield Hostile("header nested without end", "weights", made(b'{"w":' + b"[" * 50_000))
    for name, lie in {
        "offsets beyond the file": {"data_offsets": [0, 1 << 40]},
        "negative offsets": {"data_offsets": [-16, 0]},
        "offsets backwards": {"data_offsets": [16, 0]},
        "shape larger than the data": {"shape": [1 << 40]},
        "shape that overflows": {"shape": [1 << 33, 1 << 33]},
        "unknown type": {"dtype": "PICKLE"},
    }.items():
        yield Hostile(name, "weights", made({"w": {**entry, **lie}}))
    yield Hostile("tensors that overlap", "weights", made({"a": entry, "b": entry}))
    yield Hostile("tensors with a hole", "weights", made({"w": {**entry, "shape": [2], "data_offsets": [8, 16]}}))
    yield Hostile("state whose nesting is a lie", "state", made({"__metadata__": {"state": '{"$tensor": "gone"}'}}))
    yield Hostile("state nested without end", "state", made({"__metadata__": {"state": "[" * 100_000}}, b""))


def program() -> dict[str, bytes]:
    """Export a small network: the members of its archive."""
    batch = torch.export.Dim("batch")
    network = nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten(), nn.Linear(8, 2), nn.GELU("tanh")).eval()
    program = torch.export.export(network, (torch.zeros(2, 1, 3, 3),), dynamic_shapes=({0: batch},))
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return unzipped(buffer.getvalue())


def _programs(payload: Payload) -> Iterator[Hostile]:
    members = program()
    model = "archive/models/model.json"

    def changed(change: Callable[[Any], object], member: str = model) -> bytes:
        document = json.loads(members[member])
        change(document)
        return zipped({**members, member: json.dumps(document).encode()})

    for name, change in _program_changes(payload).items():
        yield Hostile(name, "torch", changed(change))
    for name, change in _left_out(payload).items():
        yield Hostile(name, "torch", changed(change), harmless=True)
    for name in members:
        if "/weight_" not in name:
            data = zipped({**members, name: payload.pickle})
            short = name.startswith(("archive/.data/", "archive/byteorder", "archive/archive_format"))
            yield Hostile(f"pickle in {name}", "torch", data, harmless=short or "sample_inputs" in name)
    config = "archive/data/weights/model_weights_config.json"
    yield from _program_members(payload, members)

    def as_pickle(document: Any) -> None:
        next(iter(document["config"].values()))["use_pickle"] = True

    pickled = unzipped(changed(as_pickle, config))
    yield Hostile(
        "weight that is a pickle", "torch", zipped({**pickled, "archive/data/weights/weight_0": payload.pickle})
    )


def _program_members(payload: Payload, members: Mapping[str, bytes]) -> Iterator[Hostile]:
    model = "archive/models/model.json"
    constants = "archive/data/constants/model_constants_config.json"
    for prefix in ("custom_obj", "opaque_obj"):
        entry = {"path_name": f"{prefix}_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
        foreign = {constants: json.dumps({"config": {"thing": entry}}).encode()}
        foreign[f"archive/data/constants/{prefix}_0"] = payload.pickle
        yield Hostile(f"constant that is a {prefix}", "torch", zipped({**members, **foreign}))
    for part in ("weights", "constants"):
        legacy = {name: data for name, data in members.items() if f"/{part}/" not in name}
        legacy[f"archive/data/{part}/model.pt"] = payload.pickle
        yield Hostile(f"{part} of an older torch as a pickle", "torch", zipped(legacy))
    for name in (
        "archive/data/aotinductor/model/model.so",
        "archive/extra/../../../escaped",
        "archive/executorch/model.pte",
        "archive/models/other.json",
        "../escaped",
    ):
        yield Hostile(f"member {name}", "torch", zipped({**members, name: members[model]}))
    yield Hostile("compressed members", "torch", zipped(members, method=zipfile.ZIP_DEFLATED))
    twice = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(twice, "w") as archive:
        warnings.simplefilter("ignore")
        for name, data in (*members.items(), (model, b"{}")):
            archive.writestr(name, data)
    yield Hostile("member twice", "torch", twice.getvalue())
    yield Hostile("half an archive", "torch", zipped(members)[:3000])
    old = {
        "version": b"8.20",
        "serialized_exported_program.json": members[model],
        "serialized_state_dict.pt": payload.pickle,
        "serialized_constants.pt": b"",
        "serialized_example_inputs.pt": b"",
    }
    yield Hostile("pickle in the archive of torch 2.7", "torch", zipped(old))


def _program_changes(payload: Payload) -> dict[str, Callable[[Any], object]]:
    evil = payload.expression

    def graph(document: Any) -> Any:
        return document["graph_module"]["graph"]

    def size(text: str) -> Callable[[Any], object]:
        return lambda document: graph(document)["tensor_values"]["input"]["sizes"][0]["as_expr"].update(expr_str=text)

    def target(text: str) -> Callable[[Any], object]:
        return lambda document: graph(document)["nodes"][0].update(target=text)

    def call(operator: str, **texts: str) -> Callable[[Any], object]:
        inputs = [{"name": name, "arg": {"as_string": text}, "kind": 1} for name, text in texts.items()]
        return lambda document: graph(document)["nodes"][0].update(target=operator, inputs=inputs)

    def tree(kind: str, context: str) -> Callable[[Any], object]:
        def change(document: Any) -> None:
            signature = document["graph_module"]["module_call_graph"][0]["signature"]
            version, node = json.loads(signature["in_spec"])
            node.update(type=kind, context=context)
            signature["in_spec"] = json.dumps([version, node])

        return change

    def argument_names(document: Any) -> None:
        document["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] = [f"x={evil}"]

    def parameter(document: Any) -> None:
        specs = document["graph_module"]["signature"]["input_specs"]
        specs[0]["parameter"]["parameter_name"] = f'0"), {evil}, ("'

    factory = {"default_factory_module": "antigravity", "default_factory_name": "webbrowser", "dict_context": []}
    return {
        "size that runs Python": size(evil),
        "size within a symbol that runs Python": size(f"Symbol('s0', integer={evil})"),
        "size of a name of sympy": size("preview"),
        "size by an attribute": size("Symbol.__subclasses__()"),
        "size that takes for ever": size("Pow(Integer(9), Pow(Integer(9), Integer(999999999)))"),
        "size nested without end": size("(" * 2000 + "s0" + ")" * 2000),
        "operator of torch.hub": target("torch.hub.load"),
        "operator that reads a pickle": target("torch.load"),
        "operator that calls": target("_operator.call"),
        "operator by an attribute": target("torch.os.system"),
        "operator of torch.jit": call("torch.ops.aten.save.default", filename=str(payload.mark)),
        "operator that maps a file": call("torch.ops.aten.from_file.default", filename=str(payload.mark)),
        "text for an operator": call("torch.ops.aten.relu.default", self=str(payload.mark)),
        "operator of an extension": target("#evil:thing"),
        "name that is code": lambda document: graph(document)["nodes"][0].update(name=f"x = {evil}\n    y"),
        "input that is code": lambda document: graph(document)["inputs"][0]["as_tensor"].update(name=f"x={evil}"),
        "argument that is code": argument_names,
        "parameter that is code": parameter,
        "inputs of an imported class": tree("collections.defaultdict", json.dumps(factory)),
        "inputs of an enum": tree("builtins.dict", json.dumps([{"__enum__": True, "fqn": "antigravity:fly"}])),
        "range of a name that is code": lambda document: document["range_constraints"].update({evil: {"min_val": 0}}),
        "object of a class": lambda document: graph(document)["inputs"].append(
            {"as_custom_obj": {"name": "x", "class_fqn": "__torch__.torch.classes.evil"}}
        ),
        "unknown text": lambda document: document.update(hook=evil),
        "no program": lambda document: document.clear(),
    }


def _left_out(payload: Payload) -> dict[str, Callable[[Any], object]]:
    evil = payload.expression
    return {
        "guard that is code": lambda document: document.update(guards_code=[evil]),
        "trace that is code": lambda document: document["graph_module"]["graph"]["nodes"][0]["metadata"].update(
            stack_trace=evil, source_fn_stack=f"x,torch.{evil}", custom=evil
        ),
        "remarks that are code": lambda document: document["graph_module"].update(metadata={"custom": evil}),
    }


def _keras(payload: Payload, folder: Path) -> Iterator[Hostile]:
    framework("keras")  # imports it quietly
    keras = importlib.import_module("keras")
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, name="dense")])
    path = folder / "good.keras"
    network.save(path)
    members = unzipped(path.read_bytes())
    layer = {"registered_name": None, "name": "evil", "inbound_nodes": []}

    def placed(**entry: Any) -> bytes:
        config = json.loads(members["config.json"])
        config["config"]["layers"].append({**layer, **entry})
        return zipped({**members, "config.json": json.dumps(config).encode()})

    code = base64.b64encode(marshal.dumps(compile(payload.expression, "<evil>", "eval"))).decode()
    function = {"class_name": "__lambda__", "config": {"value": [code, None, None]}}
    secret = str(folder / "secret")
    for name, entry in {
        "Lambda": {"module": "keras.layers", "class_name": "Lambda", "config": {"function": function}},
        "lambda as activation": {
            "module": "keras.layers",
            "class_name": "Dense",
            "config": {"units": 2, "activation": function},
        },
        "TorchModuleWrapper": {
            "module": "keras.layers",
            "class_name": "TorchModuleWrapper",
            "config": {"module": base64.b64encode(payload.pickle).decode()},
        },
        "TFSMLayer": {"module": "keras.layers", "class_name": "TFSMLayer", "config": {"filepath": str(folder)}},
        "StringLookup": {"module": "keras.layers", "class_name": "StringLookup", "config": {"vocabulary": secret}},
        "class of another module": {"module": "os", "class_name": "system", "config": {"command": payload.command}},
        "class of a submodule": {"module": "keras.src.utils.file_utils", "class_name": "get_file", "config": {}},
        "function that fetches": {
            "module": "keras.utils",
            "class_name": "get_file",
            "config": {"origin": f"file://{secret}"},
        },
        "safe mode turned off": {
            "module": "keras.config",
            "class_name": "enable_unsafe_deserialization",
            "config": {},
        },
        "function of Python": {"module": "builtins", "class_name": "function", "config": "eval"},
        "function that deserializes": {"module": "builtins", "class_name": "function", "config": "deserialize"},
        "class that is not registered": {
            "module": None,
            "class_name": "Evil",
            "registered_name": "evil>Evil",
            "config": {},
        },
        "class that is none": {"module": ["os"], "class_name": {"a": 1}, "config": {}},
    }.items():
        yield Hostile(name, "keras", placed(**entry))
    for name in members:
        yield Hostile(f"pickle in {name}", "keras", zipped({**members, name: payload.pickle}))
    yield Hostile("file beside the network", "keras", zipped({**members, "assets/../../escaped": b"x"}))
    yield Hostile("weights as .npz", "keras", zipped({**members, "model.weights.npz": payload.pickle}))

    with h5py.File(folder / "secret.h5", "w") as file:
        file["kernel"] = np.ones((4, 2), "float32")
    (folder / "secret").write_bytes(bytes(32))
    for name, linked in _hdf5(members["model.weights.h5"], folder).items():
        yield Hostile(name, "keras", zipped({**members, "model.weights.h5": linked}))
        yield Hostile(name, "keras weights", linked)
    weights = members["model.weights.h5"]
    yield Hostile("half a file", "keras weights", weights[: len(weights) // 2])
    yield Hostile("pickle", "keras weights", payload.pickle)
    yield Hostile("pickle after HDF5's first bytes", "keras weights", b"\x89HDF\r\n\x1a\n" + payload.pickle)


def _hdf5(weights: bytes, folder: Path) -> dict[str, bytes]:
    def replaced(place: Callable[[Any, str], object]) -> bytes:
        buffer = io.BytesIO(weights)
        with h5py.File(buffer, "r+") as file:
            (name,) = (
                name
                for name in ("layers/dense/vars/0", "layers/layer/vars/0", "layers/sequential/layers/dense/vars/0")
                if name in file
            )
            del file[name]
            place(file, name)
        return buffer.getvalue()

    def link(file: Any, name: str) -> None:
        file[name] = h5py.ExternalLink(str(folder / "secret.h5"), "/kernel")

    def external(file: Any, name: str) -> None:
        file.create_dataset(name, (4, 2), "float32", external=[(str(folder / "secret"), 0, 32)])

    def virtual(file: Any, name: str) -> None:
        layout = h5py.VirtualLayout((4, 2), "float32")
        layout[:] = h5py.VirtualSource(str(folder / "secret.h5"), "kernel", shape=(4, 2))
        file.create_virtual_dataset(name, layout)

    return {
        "array that is a link to another file": replaced(link),
        "array whose numbers are in another file": replaced(external),
        "array made of another file": replaced(virtual),
    }


def _documents() -> Iterator[Hostile]:
    hostile = {
        "not JSON": b"\x80\x04\x95",
        "nested without end": b"[" * 200_000,
        "a number": b"7",
        "a list": b"[[], {}]",
        "an object without fields": b"{}",
        "wrong types": b'{"run": 1, "configs": "c", "visits": 3, "version": "x", "shards": 5, "store": [], "name": {}}',
        "a huge number": b'{"version": 1' + b"0" * 5000 + b"}",
        "not UTF-8": b'{"run": "\xff\xfe"}',
    }
    for door in ("run.json", "trial.json", "events.json", "record.json", "_prepared.json"):
        for name, data in hostile.items():
            # The record of a damaged checkpoint is left out: its trial goes on from the one before.
            yield Hostile(name, door, data, harmless=door == "record.json")


def _shards(payload: Payload) -> Iterator[Hostile]:
    def written(table: pa.Table) -> bytes:
        buffer = io.BytesIO()
        pq.write_table(table, buffer)
        return buffer.getvalue()

    good = written(pa.table({"x": pa.array([1.0, 2.0], pa.float32())}))
    yield Hostile("pickle", "shard", payload.pickle)
    yield Hostile("pickle between Parquet's marks", "shard", b"PAR1" + payload.pickle + b"\xff\xff\xff\x7fPAR1")
    yield Hostile("half a file", "shard", good[: len(good) // 2])
    yield Hostile("footer longer than the file", "shard", good[:-8] + struct.pack("<I", 1 << 31) + b"PAR1")
    # A type that pyarrow before 14.0.1 unpickled.
    field = pa.field(
        "x",
        pa.float32(),
        metadata={"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": payload.pickle},
    )
    array = pa.array([1.0, 2.0], pa.float32())
    yield Hostile(
        "type that is a pickle", "shard", written(pa.table([array], schema=pa.schema([field]))), harmless=True
    )
