"""What a night on many machines would take: a model, calibrated by benchmarks.beam_runners.

    python -m benchmarks.beam_runners --json > figures.json
    python -m benchmarks.night_cost figures.json                              1 TB of CSV on 1 to 64 nodes of 8 cores
    python -m benchmarks.night_cost figures.json --gigabytes 200 --nodes 2,4 --cores 16 --epochs 3

A component takes

    fixed + own * gigabytes + cluster * gigabytes / min(nodes * cores, limit)

seconds: `own` are the CPU seconds per GB in the component's own process, one after another, `cluster` those of Flink
and its Python workers, which share them. Both are the slope between the smallest and the largest CSV that one worker of
Flink went through; `fixed` is the rest of the smallest. Work is taken to spread evenly over the workers, and network
and object store to keep up with them, which no measurement here can show. The Trainer reads its share of the examples
on each node (`train.strategy: multi_worker`), with all cores of a node used as well as those of this machine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.beam_runners import COMPONENTS, FLINK
from benchmarks.tables import Section, Table

LIMITS = {"StatisticsGen": 32, "Evaluator": 32}
"""Workers that a component keeps busy in its largest split (docs/beam.md)."""
TERABYTE, NODES, CORES = 1000.0, (1, 4, 16, 64), 8
HOUR = 3600.0


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a component: of each run, and of each GB in its own process and in the cluster."""

    fixed: float
    own: float
    cluster: float

    @classmethod
    def fitted(cls, small: Mapping[str, float], large: Mapping[str, float], gigabytes: tuple[float, float]) -> Cost:
        """Of a component's figures at two sizes, the smaller first. Slopes below zero, which are noise, count as 0."""
        more = gigabytes[1] - gigabytes[0]
        own, cluster = (
            max(0.0, (large[name] - small[name]) / more) for name in ("own_cpu_seconds", "cluster_cpu_seconds")
        )
        both = small["own_cpu_seconds"] + small["cluster_cpu_seconds"]
        return cls(max(0.0, both - (own + cluster) * gigabytes[0]), own, cluster)

    def seconds(self, gigabytes: float, workers: int) -> float:
        """How long the component takes with so many workers."""
        return self.fixed + gigabytes * (self.own + self.cluster / workers)


def costs(rows: Sequence[Mapping[str, Any]]) -> dict[str, Cost]:
    """The cost of each component. Raises SystemExit without two sizes by one worker of Flink."""
    (one_worker,) = [engine for engine, workers in FLINK.items() if workers == 1]
    runs = sorted((row for row in rows if row["engine"] == one_worker), key=lambda row: float(row["megabytes"]))
    if len(runs) < 2 or runs[0]["megabytes"] == runs[-1]["megabytes"]:
        raise SystemExit(
            f"two sizes of CSV by `{one_worker}` are needed; run benchmarks.beam_runners with Java and Maven"
        )
    small, large = runs[0], runs[-1]
    sizes = small["megabytes"] / 1000, large["megabytes"] / 1000
    return {
        name: Cost.fitted(small["components"][name], large["components"][name], sizes)
        for name in (*COMPONENTS, "Trainer")
    }


def hours(found: Mapping[str, Cost], gigabytes: float, nodes: int, cores: int, epochs: int) -> dict[str, float]:
    """Hours of each component on so many nodes."""
    shares = {name: min(nodes * cores, LIMITS.get(name, nodes * cores)) for name in COMPONENTS}
    took = {name: found[name].seconds(gigabytes, workers) / HOUR for name, workers in shares.items()}
    trainer = found["Trainer"]
    return {**took, "Trainer": (trainer.fixed + trainer.own * gigabytes * epochs / (nodes * cores)) / HOUR}


def section(found: Mapping[str, Cost], gigabytes: float, nodes: Sequence[int], cores: int, epochs: int) -> Section:
    """The table and the figures that it is made of."""
    lines = []
    for count in nodes:
        took = hours(found, gigabytes, count, cores, epochs)
        lines.append([f"{count}", *(f"{value:.2f}" for value in took.values()), f"{sum(took.values()):.2f}"])
    head = ["nodes", *(f"{name}, h" for name in (*COMPONENTS, "Trainer")), "all, h"]
    slopes = "; ".join(
        f"{name} {cost.fixed:.0f} + {cost.own:.0f} + {cost.cluster:.0f}"
        if name in COMPONENTS
        else f"{name} {cost.fixed:.0f} + {cost.own:.0f} for each epoch"
        for name, cost in found.items()
    )
    caption = f"A model: {gigabytes:,.0f} GB of CSV a night on nodes of {cores} cores, epochs: {epochs}"
    notes = (
        f"CPU seconds of a run + of each GB in the component's own process + of each GB on Flink: {slopes}.",
        "Extrapolated from the two sizes of CSV above by `python -m benchmarks.night_cost`, which says what it assumes."
        " No run on several machines has been measured.",
    )
    return Section("A terabyte a night", [(caption, Table(head, lines))], notes)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=Path, help="what `python -m benchmarks.beam_runners --json` printed")
    parser.add_argument("--gigabytes", type=float, default=TERABYTE, help="of CSV")
    parser.add_argument("--nodes", type=lambda text: [*map(int, text.split(","))], default=NODES)
    parser.add_argument("--cores", type=int, default=CORES, help="of each node")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--markdown", action="store_true", help="as a section of docs/benchmarks.md")
    given = parser.parse_args()
    rows = json.loads(given.figures.read_text(encoding="utf-8"))
    rows = rows["beam_runners"] if isinstance(rows, dict) else rows  # of `python -m benchmarks --json` too
    found = section(costs(rows), given.gigabytes, given.nodes, given.cores, given.epochs)
    print(found.markdown() if given.markdown else found.text())


if __name__ == "__main__":
    main()
