"""The program of an exit handler's pod: it tells the receivers of `notify:` of the run that is just ending.

    python -m headrace.pipeline.kubeflow.notifier.exit_handler --config JSON --executor-input JSON

It exits with 1 if a receiver was not reached or the end could not be read. That shows in Kubeflow's interface and
changes nothing about the run; the next sweep tells what is left. Compiled pipelines name this module.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from headrace.common.environment import prepare
from headrace.common.errors import HeadraceError
from headrace.common.logs import log_to_stdout
from headrace.common.utf8 import use_utf8
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow.compiler.objects import pod_overrides
from headrace.pipeline.kubeflow.pod.invocation import unpack
from headrace.pipeline.kubeflow.server.access import POD_TOKEN


def main(arguments: Sequence[str] | None = None) -> int:
    """Tell the receivers; returns the exit status."""
    prepare()
    log_to_stdout()
    parser = argparse.ArgumentParser(prog="headrace.pipeline.kubeflow.notifier.exit_handler")
    parser.add_argument("--config", required=True, metavar="JSON", help="The config's YAML as a JSON string.")
    parser.add_argument("--executor-input", required=True, metavar="JSON", help="The executor input of the launcher.")
    given = parser.parse_args(arguments)
    run_id = json.loads(given.executor_input)["inputs"]["parameterValues"]["run_id"]
    try:
        return _tell(_config_in_pod(json.loads(unpack(given.config))), run_id)
    except HeadraceError as error:
        print(f"the next sweep tells the receivers: {error}", file=sys.stderr)
        return 1


def _config_in_pod(text: str) -> PipelineConfig:
    """The config as the pod uses it: with the server as pods reach it, and the token of the pod if it has one."""
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        path = Path(folder, "config.yaml")
        path.write_text(text, encoding="utf-8")
        config = load(path)
        server, notifier = config.kubeflow.server, config.kubeflow.notify
        token = "in_cluster" if Path(POD_TOKEN).exists() else "none"
        overrides = pod_overrides(notifier.endpoint if notifier else "", token)
        if server.ca_file is not None and not Path(server.ca_file).expanduser().is_file():  # it is on another machine
            overrides.append("kubeflow.server.ca_file=null")
        if page := server.interface or server.endpoint:
            overrides.append(f"kubeflow.server.interface={page}")
        return load(path, None, overrides)


def _tell(config: PipelineConfig, run_id: str) -> int:
    from headrace.common.store_lock import LockedError
    from headrace.pipeline.kubeflow.notifier.exit import LeftError, tell_exit
    from headrace.pipeline.kubeflow.results_store import results_of
    from headrace.pipeline.kubeflow.server.session import Session

    try:
        with results_of(config) as store:
            notice = tell_exit(Session.of(config), store, run_id)
    except (LeftError, LockedError) as why:
        print(f"left to the next sweep: {why}")
        return 0
    if notice is None:
        print("nothing to tell: the receivers know of this end")
        return 0
    print(notice)
    return int(notice.failed)


if __name__ == "__main__":
    use_utf8()
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
