"""Finds unusual readings and the windiest days."""

from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median

from strata_action import Context, Failure, Output, action


@dataclass
class Config:
    """The `config` of the team file."""

    deviations: float = 3.0
    """A reading is unusual if it differs from its neighbours by more than this multiple of the usual daily change."""


@dataclass
class Reading:
    """The measurements of one day."""

    day: str
    temperature: float
    wind: float


@dataclass
class Readings:
    """The data of the reader's message."""

    readings: list[Reading]


@dataclass
class Explained:
    """The notes, and the unusual days."""

    notes: list[str]
    odd: list[str]


@action
def explain(cx: Context[Config]) -> Output[Explained]:
    readings = cx.data(Readings).readings
    if len(readings) < 3:
        raise Failure("explaining: at least three readings are needed")
    odd = odd_readings(readings, cx.config.deviations)
    notes = [f"{one.day}: {one.temperature:.1f} °C is far from the days around it" for one in odd]
    notes.append(windiest(readings))
    return Output("\n".join(notes), data=Explained(notes, [one.day for one in odd]))


def odd_readings(readings: list[Reading], deviations: float) -> list[Reading]:
    """Return the readings that are far from the median of the five days around them."""
    values = [one.temperature for one in readings]
    usual = median(abs(after - before) for before, after in pairwise(values))
    middles = [median(values[max(0, i - 2):i + 3]) for i in range(len(values))]
    return [one for one, middle in zip(readings, middles) if abs(one.temperature - middle) > deviations * usual]


def windiest(readings: list[Reading]) -> str:
    """Return a note about the three consecutive days with the most wind."""
    spans = zip(readings, readings[1:], readings[2:])
    most = max(spans, key=lambda span: sum(one.wind for one in span))
    return f"{most[0].day} to {most[2].day}: the windiest days, {mean(one.wind for one in most):.0f} km/h"
