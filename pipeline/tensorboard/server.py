"""TensorBoard on this machine: a folder of links that follows the runs, and a profile page that needs no internet.

TensorBoard's profile plugin writes what it computes next to the profile. In the Trainer's own folder those files would
make the artifact look damaged, and the next run would train again; next to a link they do no harm.

Its page loads Google Charts from gstatic.com before anything else, and stays empty without them. Here the page loads
our own charts from this server (`datatable.js` and `drawing.js`, with the engine of `pipeline/charts`), and its
Content-Security-Policy keeps the browser from contacting any other.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from headrace.common.errors import RunError
from headrace.common.names import latest
from headrace.pipeline.charts import script
from headrace.pipeline.folders import Folders
from headrace.pipeline.results.record import RunRecord, newest_first

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

TRAINER = "Trainer"
LOGS = "model_run"
EVENTS = "events.out.tfevents"
PROFILE = ".xplane.pb"
RELOAD = 5
"""Seconds between two scans for new logs."""
PAGE = "/data/plugin/profile/index.html"
CHARTS = "headrace_charts.js"
LOADER = "https://${domain}/charts/loader.js"
"""The script that xprof's page loads first."""
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-eval' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' blob: data:; font-src 'self' data:; connect-src 'self' data:; object-src 'none'"
)
"""xprof's own policy, without the hosts on the internet."""


def trainings(folders: Folders, run_id: str | None) -> dict[str, Path]:
    """The folder of logs of each training by the id of the run that trained it, in order; running trainings too.

    With `run_id`, only the training whose model that run has, under that run's id. Raises RunError if there is none.
    """
    logs = folders.artifacts / TRAINER / LOGS
    made = {path.name: path for path in sorted(logs.glob("*")) if path.is_dir()}
    if run_id is None:
        if not made:
            raise RunError(f"no training yet in {logs}; start one with `headrace run`")
        return made
    if run_id in made:
        return {run_id: made[run_id]}
    reused = _reused(folders.runs / run_id)
    if reused is None:
        known = [path.name for path in newest_first(folders.runs)]
        if run_id in known:
            raise RunError(f"run {run_id} has no training, so it has no logs")
        raise RunError(f"no run {run_id} in {folders.runs}; {latest(known) if known else 'there is no run yet'}")
    return {run_id: reused}


def _reused(run_dir: Path) -> Path | None:
    with contextlib.suppress(OSError, KeyError, ValueError, TypeError, json.JSONDecodeError):
        logs = RunRecord.read(run_dir).node(TRAINER).outputs.get(LOGS)
        if logs is not None and Path(logs.uri).is_dir():
            return Path(logs.uri)
    return None


def link(logs: dict[str, Path], view: Path) -> None:
    """Link each log file below `view/<run id>/`, and remove the links to files that are gone."""
    wanted = {
        view / run_id / file.relative_to(directory): file
        for run_id, directory in logs.items()
        for file in directory.rglob("*")
        if EVENTS in file.name or file.name.endswith(PROFILE)
    }
    for path in view.rglob("*"):
        if path.is_symlink() and path not in wanted:
            path.unlink()
    for path, file in wanted.items():
        if not path.is_symlink():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(file.absolute())


@contextlib.contextmanager
def serving(find: Callable[[], dict[str, Path]], port: int | None, google_charts: bool = False) -> Iterator[str]:
    """Serve the logs that `find` returns while the context is open; yields the address.

    Port None is 6006 or the next free one, 0 is any free one. Raises RunError if the port is taken.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-tensorboard-") as folder:
        view, ended = Path(folder), threading.Event()
        link(find(), view)
        address = _launch(view, port, google_charts)

        def follow() -> None:
            while not ended.wait(RELOAD):
                with contextlib.suppress(OSError, RunError):  # a run is being removed
                    link(find(), view)

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        try:
            yield address
        finally:
            ended.set()
            follower.join()


def _launch(view: Path, port: int | None, google_charts: bool) -> str:
    from tensorboard import default, main_lib, program

    def server(app: Any, flags: Any) -> Any:
        wrapped = app if google_charts else offline(app)
        return program.create_port_scanning_werkzeug_server(wrapped, flags)

    main_lib.global_init()
    tensorboard = program.TensorBoard(plugins=default.get_plugins(), server_class=server)
    chosen = [] if port is None else ["--port", str(port)]
    arguments = ["--logdir", str(view), "--host", "localhost", "--reload_interval", str(RELOAD), *chosen]
    tensorboard.configure(argv=("tensorboard", *arguments))
    try:
        return str(tensorboard.launch())
    except program.TensorBoardServerException as error:
        raise RunError(f"TensorBoard cannot start: {error.msg}; choose another port with --port") from error


def offline(app: Wsgi) -> Wsgi:
    """TensorBoard's WSGI application with our profile page and charts.

    The application is unchanged if xprof's page is not the one we know.
    """
    page = profile_page()
    files = {CHARTS: (charts(), "text/javascript"), "index.html": (page, "text/html")}

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        folder, _, name = environ.get("PATH_INFO", "").rpartition("/")
        if page is None or not folder.endswith(PAGE.rpartition("/")[0]) or name not in files:
            return app(environ, start_response)
        body, kind = files[name]
        assert body is not None  # noqa: S101 - for mypy
        headers = [
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", POLICY),
            ("X-Content-Type-Options", "nosniff"),
        ]
        start_response("200 OK", headers)
        return [body]

    return answer


def profile_page() -> bytes | None:
    """The page of xprof with our charts; None if it no longer loads Google's the way we know."""
    import xprof

    text = (Path(xprof.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    return text.replace(LOADER, CHARTS).encode() if LOADER in text else None


def charts() -> bytes:
    """The engine and our part of Google Charts' API, in the order in which they must run."""
    here = Path(__file__).parent
    return script(here / "datatable.js", here / "drawing.js").encode()
