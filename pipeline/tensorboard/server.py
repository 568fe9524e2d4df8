"""TensorBoard in this process, on a folder of links that follows the runs."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headrace.configs.errors import RunError
from headrace.pipeline.tensorboard.offline import offline
from headrace.pipeline.tensorboard.view import link

RELOAD = 5
"""Seconds between two looks for new logs."""


@contextlib.contextmanager
def serving(find: Callable[[], dict[str, Path]], port: int | None, google_charts: bool = False) -> Iterator[str]:
    """Serve the logs that `find` names, while the context lasts; yields the address.

    port: None: 6006, or the next that is free; 0: any. RunError where it is taken.
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
        raise RunError(f"TensorBoard cannot start: {error.msg}; give another port with --port") from error
