"""What a report leaves out with `report.rows: none`: all that may be the value of a single row of the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from headrace.components.canary.verdict import (
    AnswersVerdict,
    CanaryVerdict,
    ReplayVerdict,
    ServerVerdict,
    SignatureVerdict,
)
from headrace.components.gates.verdict import DataVerdicts
from headrace.pipeline.report.data import Anomaly, ColumnRow, DataSection
from headrace.pipeline.results.record import NodeRecord, RunRecord
from headrace.pipeline.results.verdict import CANARY, ModelVerdict

DISTANCES = ("gates.drift.", "gates.skew")
"""How the gates are called whose rows repeat values."""
WITHHELD = "left out, as report.rows is none"


def data_without_values(data: DataSection) -> DataSection:
    """Columns without their extremes, medians, most frequent values and pictures; ingestion without its messages."""
    ingested = replace(data.ingested, places=(), notes=())
    return replace(data, columns=list(map(_without_values, data.columns)), ingested=ingested)


def _without_values(row: ColumnRow) -> ColumnRow:
    numbers = row.column.numbers
    hidden = numbers and replace(numbers, minimum=math.nan, median=math.nan, maximum=math.nan)
    column = replace(row.column, numbers=hidden, top=(), histogram=(), too_low=None)
    return replace(row, column=column, picture=type(row.picture)())


def anomalies_without_values(anomalies: Sequence[Anomaly] | None) -> list[Anomaly] | None:
    """The columns and rules alone."""
    return None if anomalies is None else [replace(one, what=WITHHELD) for one in anomalies]


def gates_without_values(gates: DataVerdicts | None) -> DataVerdicts | None:
    """Distances of columns without the values that they were measured from."""
    if gates is None:
        return None
    bare = {"before": WITHHELD, "now": WITHHELD}
    drift = {
        gate.gate: gate.model_copy(update={"rows": tuple(row.model_copy(update=bare) for row in gate.rows)})
        for gate in gates.gates
        if gate.gate.startswith(DISTANCES)
    }
    return DataVerdicts(gates=tuple(drift.get(gate.gate, gate) for gate in gates.gates))


def verdict_without_values(verdict: ModelVerdict) -> ModelVerdict:
    """Without the errors that the canary quotes."""
    if verdict.canary is None:
        return verdict
    others = [reason for reason in verdict.reasons if not reason.startswith(CANARY)]
    ours = [f"{CANARY}why it did not pass is {WITHHELD}"] if verdict.canary.reasons else []
    return replace(verdict, canary=_canary(verdict.canary), reasons=(*ours, *others))


def _canary(canary: CanaryVerdict) -> CanaryVerdict:
    reasons = (f"the reasons are {WITHHELD}",) if canary.reasons else ()
    replayed, served = canary.replay and _replay(canary.replay), canary.server and _server(canary.server)
    changed = {"signatures": _signatures(canary.signatures), "replay": replayed, "server": served}
    return canary.model_copy(
        update={"reasons": reasons, "answers": canary.answers and _answers(canary.answers), **changed}
    )


def _answers(answers: AnswersVerdict) -> AnswersVerdict:
    """The number of answers that differ, without both values; an error may quote an example."""
    bare = answers.differing and answers.differing.model_copy(update={"trained": WITHHELD, "exported": WITHHELD})
    return answers.model_copy(update={"skipped": answers.skipped and WITHHELD, "differing": bare})


def _signatures(signatures: Sequence[SignatureVerdict]) -> tuple[SignatureVerdict, ...]:
    return tuple(
        one.model_copy(
            update={
                "skipped": one.skipped and WITHHELD,
                "odd": tuple(odd.model_copy(update={"detail": odd.detail and WITHHELD}) for odd in one.odd),
            }
        )
        for one in signatures
    )


def _server(server: ServerVerdict) -> ServerVerdict:
    """Why it was skipped is about the server alone."""
    protocols = tuple(one.model_copy(update={"signatures": _signatures(one.signatures)}) for one in server.protocols)
    reasons = (f"the reasons are {WITHHELD}",) if server.reasons else ()
    return server.model_copy(update={"reasons": reasons, "protocols": protocols})


def _replay(replay: ReplayVerdict) -> ReplayVerdict:
    """Counts of the features that differ, without the rows; an error may quote an example."""
    differing = tuple(one.model_copy(update={"shown": ()}) for one in replay.differing)
    return replay.model_copy(update={"skipped": replay.skipped and WITHHELD, "differing": differing})


def record_without_values(record: RunRecord) -> RunRecord:
    """Without the messages of errors."""
    message = f"The message is {WITHHELD}; the log on the machine of the run has it."
    nodes = [_node(node, message) for node in record.nodes]
    return replace(record, nodes=nodes, error=message if record.error else record.error)


def _node(node: NodeRecord, message: str) -> NodeRecord:
    return replace(node, error=message) if node.error else node
