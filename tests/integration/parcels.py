"""Parcels that come late or not: data of which a model learns something within seconds."""

from __future__ import annotations

import random
from pathlib import Path


def parcels_config(*features: str) -> str:
    """The text of a config that learns in a moment whether a parcel comes late. features: a line of YAML for each."""
    lines = "".join(f"  {feature}\n" for feature in features)
    return f"""\
pipeline: {{name: parcels}}
data: {{source: {{kind: csv, path: parcels.csv}}}}
label: {{key: late, kind: binary}}
features:
{lines}model: {{kind: dnn, hidden: [4]}}
train: {{epochs: 1, early_stopping: null}}
evaluate: {{metrics: [auc], better_than_constant: false}}
"""


def write_parcels(path: Path, rows: int, *, noise: bool = False) -> None:
    """A CSV file of parcels, the same each time; noise: with a column that tells nothing."""
    chance = random.Random(7)
    lines = ["distance,hours,carrier," + ("noise,late" if noise else "late")]
    for _ in range(rows):
        distance, carrier = chance.uniform(1, 400), chance.choice(["post", "rail", "van"])
        hours = distance * chance.uniform(0.2, 1.8)
        late = int(hours / distance > (0.8 if carrier == "rail" else 1.1))
        more = f"{chance.random():.4f}," if noise else ""
        lines.append(f"{distance:.3f},{hours:.3f},{carrier},{more}{late}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
