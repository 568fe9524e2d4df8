"""What Beam executed in a run, as far as the run executed anything itself."""

from __future__ import annotations

from headrace.pipeline.local.record import RunRecord


def describe_beam(record: RunRecord) -> str:
    """`direct: ExampleGen (2 pipelines, 14 transforms); no pipeline in StatisticsGen`; "" if no Beam component ran.

    Components that were reused, and runs of versions that did not note it, say nothing.
    """
    runners: dict[str, tuple[list[str], list[str]]] = {}
    for node in record.nodes:
        runner, _, executed = node.beam.partition(", ")
        if not runner:
            continue
        some, none = runners.setdefault(runner, ([], []))
        if executed.startswith("no pipeline"):
            none.append(node.id)
        else:
            some.append(f"{node.id} ({executed})")
    return " · ".join(f"{runner}: {_words(some, none)}" for runner, (some, none) in runners.items())


def _words(some: list[str], none: list[str]) -> str:
    without = f"no pipeline in {', '.join(none)}, whose work was small" if none else ""
    return "; ".join(filter(None, (", ".join(some), without)))
