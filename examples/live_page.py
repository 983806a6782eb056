"""Draw the live page of a server: three networks over one trunk under load, of which one backend was killed meanwhile.

``python examples/live_page.py --out live_page.png`` needs Chromium (``apt-get install chromium``) and the weights of
``examples/serving.py``. It takes three minutes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from serving import all_back, ask, calibrate, deployed, kill_a_backend, photographs, poisson_ms, warm

from vista_spark import session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vista_spark.serving import Api

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""Names of the browser's program."""


def draw(url: str, token: str | None, path: Path, height: int = 1250) -> None:
    """Write a picture of a page.

    Parameters
    ----------
    url : str
        Address of the server.
    token : str, optional
        Token of the server, if it requires one.
    path : Path
        File of the picture.
    height : int
        Height of the picture in pixels. Default 1250.

    Raises
    ------
    SystemExit
        Chromium is not installed.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit("the picture needs Chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        # The page requests its data each second; the picture is drawn after some of its seconds.
        options = ("--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=4000", "--disable-gpu")
        places = (f"--user-data-dir={folder}", f"--screenshot={path.resolve()}", f"--window-size=1280,{height}")
        address = f"{url}/#token={token}" if token else url
        subprocess.run([browser, *options, *places, address], check=True, stderr=subprocess.DEVNULL)


def load(api: Api, rate: float, seconds: float, files: Sequence[bytes]) -> None:
    """Send requests over HTTP at times that are drawn, whether the ones before are answered or not.

    Parameters
    ----------
    api : Api
        Running server.
    rate : float
        Requests per second of each model.
    seconds : float
        Duration.
    files : sequence of bytes
        Images, sent in turn.
    """
    names = [model.name for model in api.models]
    due = sorted((at, name) for place, name in enumerate(names) for at in poisson_ms(rate, seconds, place))
    start = time.monotonic()

    def request(name: str, content: bytes) -> None:
        with suppress(urllib.error.HTTPError):  # the page counts what fails
            ask(api, name, content)

    with ThreadPoolExecutor(16) as pool:
        for number, (at, name) in enumerate(due):
            time.sleep(max(0.0, start + at / 1000 - time.monotonic()))
            pool.submit(request, name, files[number % len(files)])


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve, load, kill, draw.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command line, by default of the process.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("live_page.png"), help="file of the picture")
    parser.add_argument("--seconds", type=float, default=120.0, help="seconds of load before the picture")
    options = parser.parse_args(arguments)
    # Spark prints a stack trace for a task that is killed.
    spark = session("local[3]", conf={"spark.log.level": "FATAL", "spark.ui.showConsoleProgress": "false"})
    files = photographs()
    with tempfile.TemporaryDirectory() as folder:
        measured = deployed(spark, Path(folder)).profile("everything")
        fit = calibrate(float(measured.latencies[1]) + measured.preprocess_ms, 3.0)
        # Twice the usual deadline: clients and a backend that restarts share the machine with the other one.
        server = deployed(spark, Path(folder), rate=fit.rate, slo_ms=2 * fit.slo_ms)
        with server.start(port=0) as api:
            warm(api, files["coffee"])
            with ThreadPoolExecutor(1) as pool:
                loading = pool.submit(load, api, fit.rate, options.seconds + 15, list(files.values()))
                time.sleep(options.seconds / 2)
                kill_a_backend()
                time.sleep(options.seconds / 2)
                all_back(api)
                draw(api.url, api.token, options.out)
                loading.result()
    spark.stop()


if __name__ == "__main__":
    main()
