"""Five-field cron expressions, as in crontab(5): parsed, and translated for Kubeflow's scheduler.

The scheduler (robfig/cron 1.2) expects a field for seconds first, does not accept 7 for Sunday, and has one time zone
for all schedules. Where days of the month and of the week are combined, a field that begins with a star counts as
"any"; both `Cron` and its output keep that.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass

_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTHS = {name: number for number, name in enumerate(_NAMES, 1)}
DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_PART = re.compile(r"(?P<star>\*)(?:/(?P<each>\d+))?|(?P<first>\w+)(?:-(?P<last>\w+)(?:/(?P<step>\d+))?)?")
HOUR, DAY = 60, 24 * 60
LONGEST = {number: 29 if number == 2 else 30 if number in (4, 6, 9, 11) else 31 for number in MONTHS.values()}
"""Days of each month."""


@dataclass(frozen=True)
class _Field:
    name: str
    least: int
    most: int
    names: Mapping[str, int]


FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of the month", 1, 31, {}),
    _Field("month", 1, 12, MONTHS),
    _Field("day of the week", 0, 7, DAYS),
)


@dataclass(frozen=True)
class Cron:
    """The values of each field, and whether the day fields begin with a star."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    @classmethod
    def parse(cls, text: str) -> Cron:
        """Parse an expression. Raises ValueError with the reason."""
        parts = text.split()
        if len(parts) != len(FIELDS):
            raise ValueError(
                f"found {len(parts)} fields; cron takes five: minute, hour, day of the month, month, weekday"
            )
        minutes, hours, days, months, weekdays = (
            _values(part, field) for part, field in zip(parts, FIELDS, strict=True)
        )
        cron = cls(
            minutes,
            hours,
            days,
            months,
            frozenset(day % 7 for day in weekdays),
            parts[2].startswith("*"),
            parts[4].startswith("*"),
        )
        if cron.any_weekday and min(days) > max(LONGEST[month] for month in months):
            raise ValueError(f"it never runs: {_months(months)} no day {min(days)}")
        return cron

    def shifted(self, minutes: int) -> Cron:
        """The same times on a clock that is `minutes` ahead. Raises ValueError if cron cannot express them."""
        if minutes == 0:
            return self
        moments = [hour * HOUR + minute + minutes for hour in self.hours for minute in self.minutes]
        hours = frozenset(moment % DAY // HOUR for moment in moments)
        past = frozenset(moment % HOUR for moment in moments)
        if len(hours) * len(past) != len(moments):
            raise ValueError("the shifted hours and minutes cannot be written as two lists")
        over = {moment // DAY for moment in moments}
        weekdays = self.weekdays
        if over != {0} and not self._every_day:
            if len(over) > 1 or not self.any_day or len(self.days) != 31 or len(self.months) != 12:
                raise ValueError("some of its runs fall on another day there")
            weekdays = frozenset((day + next(iter(over))) % 7 for day in weekdays)
        return Cron(past, hours, self.days, self.months, weekdays, self.any_day, self.any_weekday)

    @property
    def _every_day(self) -> bool:
        return len(self.days) == 31 and len(self.months) == 12 and len(self.weekdays) == 7

    def six_fields(self) -> str:
        """The expression in Kubeflow's format."""
        return " ".join(
            [
                "0",
                _text(self.minutes, FIELDS[0], star=len(self.minutes) > 2),
                _text(self.hours, FIELDS[1], star=len(self.hours) > 2),
                _text(self.days, FIELDS[2], star=self.any_day),
                _text(self.months, FIELDS[3], star=len(self.months) > 2),
                _text(self.weekdays, FIELDS[4], star=self.any_weekday),
            ]
        )


def translate(text: str, zone: str = "UTC", server_zone: str = "UTC") -> str:
    """Translate five fields in one time zone to Kubeflow's six in the server's time zone.

    Raises ValueError if the expression is invalid or cannot be expressed in the server's time zone.
    """
    cron = Cron.parse(text)
    if zone == server_zone:
        return cron.six_fields()
    ahead = _ahead(zone, server_zone)
    if ahead is None:
        raise ValueError(
            f"the offset between {zone} and {server_zone}, the server's time zone, changes during the year; write the"
            f" schedule in {server_zone}, or set CRON_SCHEDULE_TIMEZONE on the server to {zone}"
        )
    try:
        return cron.shifted(ahead).six_fields()
    except ValueError as error:
        raise ValueError(f"it cannot be expressed in {server_zone}, the server's time zone: {error}") from None


def _ahead(zone: str, server_zone: str, year: int | None = None) -> int | None:
    """By how many minutes the server's clock is ahead; None if that changes within two years."""
    here, there = zoneinfo.ZoneInfo(zone), zoneinfo.ZoneInfo(server_zone)
    first = dt.datetime(year or dt.datetime.now(dt.UTC).year, 1, 1, tzinfo=dt.UTC)
    days = [first + dt.timedelta(days=day) for day in range(731)]
    found = {_offset(there, day) - _offset(here, day) for day in days}
    seconds = found.pop().total_seconds()
    return int(seconds // 60) if not found and seconds % 60 == 0 else None


def _offset(zone: zoneinfo.ZoneInfo, moment: dt.datetime) -> dt.timedelta:
    return moment.astimezone(zone).utcoffset() or dt.timedelta()


def _months(numbers: frozenset[int]) -> str:
    """`February has`, `April and June have`."""
    names = [dt.date(2000, number, 1).strftime("%B") for number in sorted(numbers)]
    return f"{' and '.join(names)} {'has' if len(names) == 1 else 'have'}"


def _values(text: str, field: _Field) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{field.name}: {part!r} is not a number, name, range or step")
        step = int(match["each"] or match["step"] or 1)
        if match["star"]:
            first, last = field.least, 6 if field.most == 7 else field.most
        else:
            first = _number(match["first"], field)
            last = _number(match["last"], field) if match["last"] else first
        if first > last:
            raise ValueError(f"{field.name}: {part!r} ends before it starts")
        if step == 0:
            raise ValueError(f"{field.name}: {part!r} has a step of 0")
        found.update(range(first, last + 1, step))
    return frozenset(found)


def _number(text: str, field: _Field) -> int:
    number = field.names.get(text.lower(), int(text) if text.isdecimal() else None)
    if number is None or not field.least <= number <= field.most:
        raise ValueError(f"{field.name}: {text!r} is not between {field.least} and {field.most}")
    return number


def _text(values: frozenset[int], field: _Field, *, star: bool) -> str:
    """The values as text: a star for all of them; if a star was written (`star`), its step is recovered."""
    most = 6 if field.most == 7 else field.most
    every = range(field.least, most + 1)
    if star:
        for step in range(1, most + 1):
            if values == frozenset(every[::step]):
                return "*" if step == 1 else f"*/{step}"
    elif len(values) == len(every):
        return f"{field.least}-{most}"
    return ",".join(map(str, sorted(values)))
