"""Kills at random moments of each component of a pipeline, until each has died so many times.

kills = Kills("nightly", each=10, draw=random.Random(1))
night = kills.night(undisturbed.run, calm.changes)          # of a run that was not killed
while night.due:
    done = killed.run(kills=night.due)
    night.count(killed.died, done.record)
assert kills.missed == {}                                   # how many kills each component still lacks
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from dying_run import LAUNCHED, START
from killed_nights import Moment

from headrace.pipeline.results.record import RunRecord, Status

PER_NIGHT = 2
"""How often a component dies in one night at most: the second time, it resumes what the first has left."""


class Kills:
    """How many kills each component of a pipeline has had, and when the next ones come."""

    def __init__(self, pipeline: str, each: int, draw: random.Random) -> None:
        self.pipeline, self._each, self._draw = pipeline, each, draw
        self.counts = Counter[str]()
        self.too_late = 0
        """Moments that no run reached, or at which the component had ended. They do not count as kills."""

    @property
    def missed(self) -> dict[str, int]:
        """The kills that are missing, by component."""
        return {name: self._each - count for name, count in self.counts.items() if count < self._each}

    def night(self, undisturbed: RunRecord, changes: Mapping[tuple[str, str], int]) -> Night:
        """Moments of a night for the components that have died too rarely.

        changes: how many changes to the file system the undisturbed run made, by process and component.
        """
        seconds = {node.id: node.seconds(0) or 0 for node in undisturbed.nodes}
        self.counts.update(dict.fromkeys([START, *seconds], 0))
        computed = [START, *(node.id for node in undisturbed.nodes if node.status is Status.DONE)]
        waiting = {}
        for component in [name for name in computed if name in self.missed]:
            times = range(min(self.missed[component], PER_NIGHT))
            sure = not self.counts[component]
            drawn = [self._moment(component, changes, seconds.get(component, 0), sure=sure) for _ in times]
            waiting[component] = sorted(drawn, key=may_record)
        return Night(self, waiting)

    def _moment(self, component: str, changes: Mapping[tuple[str, str], int], seconds: float, *, sure: bool) -> Moment:
        """Before a change of the command or of the component's own process, or at any time within the component, which
        may be in code that is not Python. sure: at a moment that each run comes to.
        """
        kind = self._draw.random()
        if component == START or (kind < 0.2 and not sure):
            return Moment("command", component, self._draw.randrange(changes["command", component]))
        if kind < 0.5:
            return Moment("command", component, LAUNCHED, after=self._draw.uniform(0.001, max(seconds, 0.001)))
        at = self._draw.randrange(changes["component", component])
        return Moment("component", component, at, alone=self._draw.random() < 0.3)


def may_record(moment: Moment) -> bool:
    """Whether the component may have ended at that moment, so that the next run reuses it."""
    return moment.process == "command" and not moment.after


@dataclass
class Night:
    """The moments that are still to come in a night, by component."""

    kills: Kills
    waiting: dict[str, list[Moment]]

    @property
    def due(self) -> list[Moment]:
        """The next moment of each component."""
        return [moments[0] for moments in self.waiting.values() if moments]

    def count(self, died: list[str], record: RunRecord | None) -> None:
        """Count the deaths of a run. record: as the dead run has left it, which may say that a component had ended."""
        ended = {node.id for node in (record.nodes if record else ()) if node.status in (Status.DONE, Status.CACHED)}
        for component in died:
            moment = self.waiting[component].pop(0)
            hit = component not in ended
            self.kills.counts[component] += hit
            self.kills.too_late += not hit
            print(f"{self.kills.pipeline}: {moment}{'' if hit else ': too late'}", flush=True)
        if not died:
            self.kills.too_late += sum(map(len, self.waiting.values()))
            self.waiting.clear()


def table(*pipelines: Kills) -> str:
    """The kills by component, a column for each pipeline."""
    names = list(dict.fromkeys(name for kills in pipelines for name in kills.counts))
    rows = [["killed in", *(kills.pipeline for kills in pipelines)]]
    rows += [[name, *(str(kills.counts.get(name, "")) for kills in pipelines)] for name in names]
    rows += [["too late", *(str(kills.too_late) for kills in pipelines)]]
    return "\n".join(f"{name:20}" + "".join(f"{cell:>14}" for cell in cells) for name, *cells in rows)
