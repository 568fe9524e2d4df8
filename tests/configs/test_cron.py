"""Five-field cron to Kubeflow's six, by what either means for a moment."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import zoneinfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.common.cron import Cron, translate

LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


def bits(field: str, least: int, most: int) -> tuple[set[int], bool]:
    """As robfig/cron 1.2.0 reads a field: its values, and whether it has its star."""
    values: set[int] = set()
    star = False
    for part in field.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            star, first, last = True, least, most
        else:
            low, _, high = span.partition("-")
            first, last = int(low), int(high or low)
        assert least <= first <= last <= most, field
        values.update(range(first, last + 1, int(step or 1)))
    return values, star


def due(six: str, moment: dt.datetime) -> bool:
    """Whether robfig/cron 1.2.0 would start a run at the moment."""
    second, *fields = six.split()
    assert second == "0"
    (minutes, _), (hours, _), (days, any_day), (months, _), (weekdays, any_weekday) = (
        bits(field, *limits) for field, limits in zip(fields, LIMITS, strict=True)
    )
    by_day, by_weekday = moment.day in days, moment.isoweekday() % 7 in weekdays
    of_day = (by_day and by_weekday) if any_day or any_weekday else (by_day or by_weekday)
    return moment.minute in minutes and moment.hour in hours and moment.month in months and of_day


def crontab(five: str, moment: dt.datetime) -> bool:
    """Whether a crontab is due at the moment, part by part, as its manual page has it."""
    minute, hour, day, month, weekday = five.split()

    def hit(field: str, *numbers: int, least: int) -> bool:
        return any(inside(part, number, least) for part in field.split(",") for number in numbers)

    on_day = hit(day, moment.day, least=1)
    on_weekday = hit(weekday, moment.isoweekday() % 7, *([7] if moment.isoweekday() == 7 else []), least=0)
    either = not day.startswith("*") and not weekday.startswith("*")
    return (
        hit(minute, moment.minute, least=0)
        and hit(hour, moment.hour, least=0)
        and hit(month, moment.month, least=1)
        and (on_day or on_weekday if either else on_day and on_weekday)
    )


def inside(part: str, number: int, least: int) -> bool:
    span, _, step = part.partition("/")
    if span == "*":
        return (number - least) % int(step or 1) == 0
    low, _, high = span.partition("-")
    return int(low) <= number <= int(high or low) and (number - int(low)) % int(step or 1) == 0


def fields(least: int, most: int) -> st.SearchStrategy[str]:
    ranges = (
        st.tuples(st.integers(least, most), st.integers(least, most))
        .map(sorted)
        .map(lambda ends: "-".join(map(str, ends)))
    )
    part = st.one_of(
        st.integers(least, most).map(str),
        ranges,
        st.tuples(ranges, st.integers(1, most)).map(lambda both: f"{both[0]}/{both[1]}"),
    )
    stars = st.one_of(st.just("*"), st.integers(1, most).map(lambda step: f"*/{step}"))
    return st.one_of(stars, st.lists(part, min_size=1, max_size=3).map(",".join))


crons = st.tuples(fields(0, 59), fields(0, 23), fields(1, 31), fields(1, 12), fields(0, 7)).map(" ".join)
moments = st.datetimes(dt.datetime(2024, 1, 1), dt.datetime(2028, 1, 1)).map(
    lambda at: at.replace(second=0, microsecond=0)
)
FOUR_YEARS = [dt.datetime(2024, 1, 1) + dt.timedelta(days) for days in range(1461)]
"""With a 29 February."""


@given(crons, st.lists(moments, min_size=1, max_size=30))
def test_six_fields_are_due_when_the_five_are(five: str, when: list[dt.datetime]) -> None:
    every_day = " ".join(["0 0", *five.split()[2:]])
    if not any(crontab(every_day, day) for day in FOUR_YEARS):
        with pytest.raises(ValueError, match="it never runs"):
            translate(five)
        return
    six = translate(five)
    for moment in when:
        assert due(six, moment) == crontab(five, moment), (six, moment)


@pytest.mark.slow
@given(crons, moments, st.sampled_from(["Asia/Tokyo", "Asia/Kolkata", "Pacific/Honolulu", "America/Bogota"]))
def test_another_zone_is_due_at_the_same_moment_or_refused(five: str, moment: dt.datetime, zone: str) -> None:
    six = None
    with contextlib.suppress(ValueError):
        six = translate(five, zone, "UTC")
    assume(six is not None)
    here = moment.replace(tzinfo=dt.UTC).astimezone(zoneinfo.ZoneInfo(zone))
    assert due(str(six), moment) == crontab(five, here.replace(tzinfo=None)), six


@pytest.mark.parametrize(
    ("five", "six"),
    [
        ("30 4 * * *", "0 30 4 * * *"),
        ("*/15 * * * *", "0 */15 * * * *"),
        ("0 0 * * 7", "0 0 0 * * 0"),
        ("0 9 1 jan,Jul mon-fri", "0 0 9 1 1,7 1,2,3,4,5"),
        ("0 9 */2 * *", "0 0 9 */2 * *"),
    ],
)
def test_known_crons_read_as_expected(five: str, six: str) -> None:
    assert translate(five) == six


def test_the_weekday_moves_with_the_zone() -> None:
    assert translate("0 3 * * 1", "Asia/Tokyo", "UTC") == "0 0 18 * * 0"
    assert translate("30 9 * * *", "Asia/Kolkata", "UTC") == "0 0 4 * * *"
    assert translate("0 9 * * 1", "Europe/Berlin", "Europe/Berlin") == "0 0 9 * * 1"


@pytest.mark.parametrize("five", ["0 0 31 1,2 *", "0 0 30 2-3 *", "0 0 29 2 *", "0 0 31 2,4,12 *"])
def test_a_day_that_one_of_the_months_has_is_said(five: str) -> None:
    assert translate(five, "UTC", "UTC").split()[3] == five.split()[2]


@pytest.mark.parametrize(
    ("five", "zone", "what"),
    [
        ("30 4 * *", "UTC", "found 4 fields"),
        ("0 30 4 * * *", "UTC", "found 6 fields"),
        ("@daily", "UTC", "1 fields"),
        ("0 0 30 2 *", "UTC", "February has no day 30"),
        ("61 * * * *", "UTC", "minute: '61' is not between 0 and 59"),
        ("0 0 0 * *", "UTC", "day of the month: '0' "),
        ("0 5-3 * * *", "UTC", "hour: '5-3' ends before"),
        ("*/0 * * * *", "UTC", "minute: '*/0' has a step of 0"),
        ("0 0 L * *", "UTC", "day of the month: 'L' "),
        ("5/15 * * * *", "UTC", "minute: '5/15' is not"),
        ("0 4 * * *", "Europe/Berlin", "changes during the year"),
        ("0 3 1 * *", "Asia/Tokyo", "another day there"),
    ],
)
def test_schedule_that_cron_cannot_express_is_refused_with_the_reason(five: str, zone: str, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)):
        translate(five, zone, "UTC")


def test_names_are_read_whatever_the_case() -> None:
    for number, name in enumerate(MONTHS, 1):
        assert Cron.parse(f"0 0 1 {name.upper()} *").months == {number}
