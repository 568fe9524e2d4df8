"""Commands that are started at the same moment in one folder: one runs, the others are refused and change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import headrace, started_at_once, versions
from parcels import parcels_config, write_parcels

pytestmark = pytest.mark.slow

AT_ONCE = 3


def test_of_runs_that_start_at_the_same_moment_one_pushes_and_the_others_leave_nothing(tmp_path: Path) -> None:
    write_parcels(tmp_path / "parcels.csv", 400)
    config = parcels_config("distance: {column: numeric}") + "deploy: {push: serving, canary: null}\n"
    (tmp_path / "parcels.yaml").write_text(config)
    home = tmp_path / "runs" / "parcels"
    for night in (1, 2):
        epochs = f"train.epochs={night}"
        going = [started_at_once(tmp_path, "run", "parcels.yaml", "--set", epochs) for _ in range(AT_ONCE)]
        ended = [one.finish() for one in going]
        said = "".join(one.out + one.err for one in ended)
        assert sorted(one.code for one in ended) == [0, *[1] * (AT_ONCE - 1)], said
        refused = [one.err for one in ended if one.code]
        assert all(f" is in progress in {home}" in err for err in refused), said
        (done,) = (one for one in ended if not one.code)
        assert done.ending("pushed").endswith(versions(tmp_path)[-1])
        assert len(versions(tmp_path)) == night
        assert len([*home.glob("runs/*")]) == night
    again = headrace(tmp_path, "run", "parcels.yaml", "--set", epochs)
    assert (again.code, again.ran(), len(versions(tmp_path))) == (0, set(), 2)
