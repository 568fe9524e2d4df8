"""From the blessing to the push: whatever is killed or finds the disk full, the model in service is a blessed one, and
the next run brings the newest of those into service, though its own candidate may be worse.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dying import deaths, full_disks
from made_up_nights import in_service, listed, night

from headrace.components.stored_models.blessed_record import AWAITING, LATE, MANUAL, Registry


@pytest.mark.parametrize("fault", [deaths, full_disks])
@pytest.mark.parametrize("earlier", [1, 3])
def test_newest_blessed_model_is_in_service_after_the_next_run(
    tmp_path: Path, fault: Callable[[Callable[[], object], Path], Iterator[int]], earlier: int
) -> None:
    before, home = tmp_path / "before", tmp_path / "home"
    for number in range(earlier):
        night(home, f"night {number}", blessed=True)
    shutil.copytree(home, before)
    last, ends = f"night {earlier - 1}", []
    for _ in fault(lambda: night(home, "tonight", blessed=True), tmp_path):
        assert in_service(home) in listed(home)
        ends.append((listed(home)[-1], in_service(home)))
        night(home, "worse", blessed=False)
        assert in_service(home) == listed(home)[-1] == ends[-1][0]
        assert not [path.name for path in (home / "serving").iterdir() if not path.name.isdecimal()]
        assert len(list((home / "serving").iterdir())) <= 2
        shutil.rmtree(home)
        shutil.copytree(before, home)
    assert {(last, last), ("tonight", last), ("tonight", "tonight")} == set(ends)
    print(f"{len(ends)} faults: {sum(in_list == 'tonight' != served for in_list, served in ends)} between both")


def test_model_of_an_earlier_run_is_not_taken_for_the_candidate_that_was_refused(tmp_path: Path) -> None:
    of_its_own_run = night(tmp_path, "blessed", blessed=True)
    (tmp_path / "pushed.json").unlink()  # as if that run had been killed before it wrote it
    late = night(tmp_path, "worse", blessed=False)
    assert of_its_own_run.get_custom_property(LATE) is None
    assert late.get_int_custom_property("pushed") == 1
    assert Registry.read(tmp_path / "blessed.json").models[-1].blessed_at in late.get_string_custom_property(LATE)


def test_model_that_failed_its_canary_is_neither_listed_nor_pushed_nor_taken_for_an_earlier_one(tmp_path: Path) -> None:
    assert night(tmp_path, "first", blessed=True, canary=False).get_int_custom_property("pushed") == 0
    assert (listed(tmp_path), (tmp_path / "serving").exists()) == ([], False)
    assert night(tmp_path, "sound", blessed=True, canary=True).get_int_custom_property("pushed") == 1
    assert night(tmp_path, "unfit", blessed=True, canary=False).get_int_custom_property("pushed") == 0
    assert (listed(tmp_path), in_service(tmp_path)) == (["sound"], "sound")
    assert len(list((tmp_path / "serving").iterdir())) == 1


def test_model_that_failed_its_canary_awaits_no_approval(tmp_path: Path) -> None:
    pushed = night(tmp_path, "first", blessed=True, canary=False, approval=MANUAL)
    assert not pushed.has_custom_property(AWAITING)
    assert night(tmp_path, "second", blessed=True, canary=True, approval=MANUAL).has_custom_property(AWAITING)


def test_listed_model_that_fails_a_later_canary_before_its_push_is_not_pushed(tmp_path: Path) -> None:
    night(tmp_path, "tonight", blessed=True, canary=True)
    for folder in ("serving", "artifacts/tonight/pushed"):
        shutil.rmtree(tmp_path / folder)
    (tmp_path / "pushed.json").unlink()  # as if the run had been killed before it pushed
    assert night(tmp_path, "tonight", blessed=True, canary=False).get_int_custom_property("pushed") == 0
    assert not (tmp_path / "serving").exists()
    assert night(tmp_path, "tonight", blessed=True, canary=True).get_int_custom_property("pushed") == 1
    assert in_service(tmp_path) == "tonight"
