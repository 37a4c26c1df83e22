"""The check of the outside places of checkpoints."""

from pathlib import Path
from typing import Final

from memoriale.adapters.anchors.memory import Health
from memoriale.adapters.anchors.places import Place
from memoriale.adapters.composition import Infrastructure, Tenant
from memoriale.adapters.doctor.checks import Check

NAME: Final = "anchors"


def anchors(infrastructure: Infrastructure, tenant: Tenant) -> Check:
    """
    There is an outside place of checkpoints, none holds another history, and each took the last
    that it was given. From what is remembered: nothing outside is asked.
    """
    opened = infrastructure.anchors
    places = opened.places.places
    if not places:
        return Check.warned(
            NAME,
            "none: a change is detected only as far as this machine and its home are trusted; "
            "name an outside place in MEMORIALE_ANCHORS",
        )
    found = [(place, opened.memory(place).health()) for place in places]
    conflicts = [str(health.conflict) for _, health in found if health.in_conflict]
    if conflicts:
        return Check.failed(NAME, "; ".join(conflicts))
    doubts = [said for place, health in found for said in _doubts(infrastructure, place, health)]
    if doubts:
        return Check.warned(NAME, "; ".join(doubts))
    return Check.passed(NAME, f"{len(places)}, each took the last checkpoint that it was given")


def _doubts(infrastructure: Infrastructure, place: Place, health: Health) -> list[str]:
    doubts = []
    if place.kind == "folder" and Path(place.address).is_relative_to(infrastructure.settings.home):
        doubts.append(f"{place.shown} lies in the home, which it is to be compared with")
    if health.last_error is not None:
        doubts.append(health.last_error)
    elif health.last_success is None:
        doubts.append(f"{place.shown} was never given a checkpoint; run 'memoriale witness push'")
    return doubts
