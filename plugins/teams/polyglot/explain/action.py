"""Says which readings are odd, and which days belong together."""

from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median

from strata_action import Context, Failure, Output, action


@dataclass
class Config:
    """`config` in the team file."""

    deviations: float = 3.0
    """From how many steps of a usual day on a reading is odd."""


@dataclass
class Reading:
    """A day."""

    day: str
    temperature: float
    wind: float


@dataclass
class Readings:
    """What the reader found."""

    readings: list[Reading]


@dataclass
class Explained:
    """Sentences for people, and the days that they are about."""

    notes: list[str]
    odd: list[str]


@action
def explain(cx: Context[Config]) -> Output[Explained]:
    readings = cx.data(Readings).readings
    if len(readings) < 3:
        raise Failure("explaining: three readings at least are needed")
    odd = odd_ones(readings, cx.config.deviations)
    notes = [f"{one.day}: {one.temperature:.1f} °C is far from the days around it" for one in odd]
    notes.append(windiest(readings))
    return Output("\n".join(notes), data=Explained(notes, [one.day for one in odd]))


def odd_ones(readings: list[Reading], deviations: float) -> list[Reading]:
    """Those that are far from the middle of the five days around them, against how far one day is from the next."""
    values = [one.temperature for one in readings]
    usual = median(abs(after - before) for before, after in pairwise(values))
    middles = [median(values[max(0, i - 2):i + 3]) for i in range(len(values))]
    return [one for one, middle in zip(readings, middles) if abs(one.temperature - middle) > deviations * usual]


def windiest(readings: list[Reading]) -> str:
    """The three days in a row with the most wind."""
    spans = zip(readings, readings[1:], readings[2:])
    most = max(spans, key=lambda span: sum(one.wind for one in span))
    return f"{most[0].day} to {most[2].day}: the windiest days, {mean(one.wind for one in most):.0f} km/h"
