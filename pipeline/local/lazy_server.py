"""The fork server, started only for a run that needs it: an unchanged run ends before TensorFlow would be imported.

Until then, components of LIGHT run in the command. Beside other components they do not, as the scheduler would wait for
them: reading a model of gigabytes to check it takes seconds.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from headrace.common.errors import RunError
from headrace.configs.config import PipelineConfig
from headrace.pipeline.code.modules import search_path
from headrace.pipeline.local.client import ForkServer
from headrace.pipeline.local.known_plan import plan_key, read_plan, write_plan
from headrace.pipeline.local.light import LIGHT, remove_written, run_light
from headrace.pipeline.local.server_process import EarlyProcess

logger = logging.getLogger(__name__)


class LazyServer:
    """Has the methods of `ForkServer`, and starts one when a component has to run that needs it.

    As long as the plan of the last run still holds, and only components of LIGHT have to run, none is started.

    with LazyServer(config, plan_file, log, processes_file, early=early, start=fresh) as server: ...

    plan_file: where the plan is kept; early: may have started the fork server's process; start: whether to start the
    fork server in any case.
    """

    def __init__(
        self,
        config: PipelineConfig,
        plan_file: Path,
        log: Path,
        processes_file: Path,
        *,
        early: EarlyProcess | None = None,
        start: bool = False,
    ) -> None:
        self._config, self._plan_file, self._log, self._processes_file = config, plan_file, log, processes_file
        self._key = plan_key(config, search_path())
        plan = None if start else read_plan(plan_file, self._key)
        self._nodes = {node["id"]: node for node in plan or ()}
        self._requests: list[dict[str, Any]] = []  # of components that are to run here
        self._early = early
        self._server = self._new_server() if plan is None else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.__exit__()

    def kill(self) -> None:
        """Kill the server, if there is one, and everything that it started."""
        if self._server is not None:
            self._server.kill()

    def stop(self, seconds: float) -> None:
        """Ask all components that run to end, and wait at most `seconds`."""
        if self._server is not None:
            self._server.stop(seconds)

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes in topological order. Raises RunError if the pipeline cannot be built."""
        if self._server is not None:
            self._nodes = self._planned(self._server)
        return [*self._nodes.values()]

    def ready_for(self, node: str) -> None:
        """Wait until a component can start at once. Raises RunError if the fork server cannot be started."""
        if not self._runs_here(node):
            self._start()

    def run(self, **request: Any) -> None:
        """Start one component (see `headrace.pipeline.local.fork_server`)."""
        if self._runs_here(request["node"]):
            self._requests.append(request)
        else:
            self._start().run(**request)

    def _runs_here(self, node: str) -> bool:
        """Whether a component runs in the command."""
        return self._server is None and self._nodes[node]["kind"] in LIGHT

    def events(self) -> Iterator[dict[str, Any]]:
        """Wait for messages. Raises RunError if the server has died."""
        if self._requests and self._server is None:
            request = self._requests[0]
            node = self._nodes[request["node"]]
            try:
                ended = run_light(node, request)
            except Exception:  # the fork server's child reports it, if it happens there too
                logger.debug("%s did not run in the command", node["id"], exc_info=True)
                remove_written(node, request)
            else:
                del self._requests[0]
                return iter([ended])
        return self._start().events()

    def _start(self) -> ForkServer:
        """The fork server, which is started if it has not been, and runs what was to run here."""
        if self._server is None:
            self._server = self._new_server()
            if self._planned(self._server) != self._nodes:
                raise RunError("the pipeline's code, or a file that its config names, has just changed; run it again")
            for request in self._requests:
                self._server.run(**request)
            self._requests.clear()
        return self._server

    def _new_server(self) -> ForkServer:
        process = self._early.take() if self._early else None
        return ForkServer(self._config, self._log, self._processes_file, process)

    def _planned(self, server: ForkServer) -> dict[str, dict[str, Any]]:
        """The nodes of a server that has just been started, which are kept for the next run."""
        nodes = server.nodes()
        if self._key is not None and server.plan_key == self._key:
            with contextlib.suppress(OSError):
                write_plan(self._plan_file, self._key, nodes, self._config)
        return {node["id"]: node for node in nodes}
