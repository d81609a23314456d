"""The rate card: what an hour of a GPU costs, and what it emits. Pure.

Owns prices by GPU type (rented, spot, or own metal by purchase, years and power), the default
power of known GPUs and the carbon factor. Knows nothing of who used what.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from trackyard.core.errors import InvalidInput
from trackyard.store.bounds import Word

HOURS_A_YEAR = 8760
#: Board power of known GPUs in watts, by a part of their name; of others 300.
BOARD_WATTS = {
    "B200": 1000.0,
    "H200": 700.0,
    "H100": 700.0,
    "MI300": 750.0,
    "A100": 400.0,
    "MI250": 560.0,
    "L40": 300.0,
    "A10": 150.0,
    "V100": 300.0,
    "4090": 450.0,
    "L4": 72.0,
    "T4": 70.0,
}
_OTHER_WATTS = 300.0
#: Part of its board power that a GPU without work draws.
_IDLE_PART = 0.15

Amount = Annotated[float, Meta(ge=0, le=1e12)]


class Rate(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The price of one type of GPU."""

    #: rented: by the hour, held or not
    per_gpu_hour: Amount | None = None
    #: on nodes labelled `spot=true`; null: the price above
    spot_per_gpu_hour: Amount | None = None
    #: own metal: what one GPU with its part of the server cost, and over how many years
    purchase: Amount | None = None
    years: Annotated[float, Meta(gt=0, le=100)] = 4.0
    #: power with its part of the server, held and not; null: the board's own
    watts: Amount | None = None
    idle_watts: Amount | None = None


class RateCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices, power and carbon."""

    currency: Word = "USD"
    #: by GPU type; a part of a type's name will do
    rates: Annotated[dict[Word, Rate], Meta(max_length=200)] = {}
    #: for types that the card does not name
    default: Rate = Rate()
    #: price of power; counts for own metal alone
    per_kwh: Amount = 0.0
    #: power that the building takes for each watt of the machines
    pue: Annotated[float, Meta(ge=1, le=10)] = 1.3
    #: emissions of the grid
    carbon_g_per_kwh: Amount = 400.0

    def check(self) -> None:
        """Refuse a card that says two things of one type."""
        for name, rate in {**self.rates, "default": self.default}.items():
            if rate.per_gpu_hour is not None and rate.purchase is not None:
                raise InvalidInput(
                    f"the rate of {name[:80]} has both per_gpu_hour and purchase: a GPU is rented"
                    " or owned; leave one out"
                )

    def rate_of(self, gpu_type: str) -> Rate:
        """Return the rate of a type: its own name, else the longest name within it."""
        if gpu_type in self.rates:
            return self.rates[gpu_type]
        low = gpu_type.lower()
        close = [name for name in self.rates if name.lower() in low]
        return self.rates[max(close, key=len)] if close else self.default

    def watts_of(self, gpu_type: str, *, is_held: bool) -> float:
        """Return the power of one GPU of a type."""
        rate = self.rate_of(gpu_type)
        full = _board_watts(gpu_type) if rate.watts is None else rate.watts
        if is_held:
            return full
        return full * _IDLE_PART if rate.idle_watts is None else rate.idle_watts

    def price(self, gpu_type: str, *, is_spot: bool, is_held: bool) -> float:
        """Return the price of an hour of one GPU."""
        rate = self.rate_of(gpu_type)
        if is_spot and rate.spot_per_gpu_hour is not None:
            return rate.spot_per_gpu_hour
        if rate.per_gpu_hour is not None:
            return rate.per_gpu_hour
        if rate.purchase is None:
            return 0.0
        power = self.watts_of(gpu_type, is_held=is_held) / 1000 * self.pue * self.per_kwh
        return rate.purchase / (rate.years * HOURS_A_YEAR) + power

    def carbon_kg(self, gpu_type: str, *, is_held: bool) -> float:
        """Return what an hour of one GPU emits, in kilograms of CO2 equivalent."""
        kwh = self.watts_of(gpu_type, is_held=is_held) / 1000 * self.pue
        return kwh * self.carbon_g_per_kwh / 1000


def _board_watts(gpu_type: str) -> float:
    low = gpu_type.lower()
    return next(
        (watts for part, watts in BOARD_WATTS.items() if part.lower() in low), _OTHER_WATTS
    )
