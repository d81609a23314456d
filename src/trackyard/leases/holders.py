"""Who may make, change and hand over leases. Owns those checks; knows no calendar."""

from __future__ import annotations

from trackyard.access.directory import team_id_of, user_id_of
from trackyard.access.principal import Role
from trackyard.access.standing import is_admin, role_in
from trackyard.core.errors import Denied, InvalidInput, NotFound
from trackyard.leases.plan.world import LeaseHolder
from trackyard.leases.records import LeaseRecord, find_lease, load_leases
from trackyard.leases.wishes import LeaseCaller, LeaseTransfer, NewLease
from trackyard.leases.wording import zone_of
from trackyard.store.database import ReadConnection, Tx


class Named:
    """A holder with the inner ids behind the names."""

    def __init__(self, holder: LeaseHolder, team_id: int, user_id: int | None) -> None:
        self.holder = holder
        self.team_id = team_id
        self.user_id = user_id


def holder_of(reader: ReadConnection | Tx, who: LeaseCaller, wish: NewLease) -> Named:
    """Return for whom a new lease is, if the caller may make it for them."""
    if wish.pool and not who.is_admin:
        raise Denied("a pool is set aside by platform admins; take a plain lease, or ask one")
    if wish.pool and wish.parent:
        raise InvalidInput("a pool is not handed out from another; leave out --pool or --from")
    return _named(reader, who, wish.team, wish.user, wish.zone)


def receiver_of(reader: ReadConnection | Tx, who: LeaseCaller, wish: LeaseTransfer) -> Named:
    """Return who takes a lease over, if the caller may hand it to them."""
    return _named(reader, who, wish.team, wish.user, wish.zone, hands_over=True)


def changer_of(who: LeaseCaller, record: LeaseRecord, zone: str) -> LeaseHolder:
    """Return the holder of a lease that the caller may change; refuse anyone else."""
    if not may_change(who, record):
        raise Denied(
            f"lease {record.row.name} is {record.row.user_name}'s (team {record.team}); ask them,"
            " a maintainer of the team, or an admin"
        )
    return LeaseHolder(
        team=record.team,
        user=record.row.user_name,
        is_exempt=who.is_admin,
        sees_all=who.is_admin,
        zone=zone_of(zone),
    )


def may_change(who: LeaseCaller, record: LeaseRecord) -> bool:
    """Say whether the caller may change a lease: its holder, maintainers of the team, admins."""
    if who.is_admin:
        return True
    if record.row.team_id != who.team_id:
        return False
    return who.is_maintainer or record.row.user_name == who.name


def pool_of(reader: ReadConnection | Tx, who: LeaseCaller, name: str) -> LeaseRecord:
    """Return the pool to hand out from, if the caller may."""
    try:
        pool = find_lease(reader, name, who.team_id)
    except NotFound:
        found = load_leases(
            reader,
            "l.name = ? AND l.kind = 'pool' AND l.state NOT IN ('terminated', 'deleted')",
            (name,),
        )
        if not found:
            raise
        pool = found[0]
    if not pool.is_pool:
        raise InvalidInput(f"lease {pool.row.name} is no pool; only pools are handed out in parts")
    if pool.state.is_over:
        raise InvalidInput(f"pool {pool.row.name} is over")
    if not may_change(who, pool):
        raise Denied(
            f"pool {pool.row.name} is handed out by {pool.row.user_name} (team {pool.team})"
        )
    return pool


def _named(
    reader: ReadConnection | Tx,
    who: LeaseCaller,
    team: str,
    user: str,
    zone: str,
    *,
    hands_over: bool = False,
) -> Named:
    team, user = team or who.team, user or who.name
    team_id = who.team_id if team == who.team else team_id_of(reader, team)
    if team_id != who.team_id and not who.is_admin:
        role = role_in(reader, team_id, who.user_id)
        if role is None or role < Role.member:
            raise Denied(f"{who.name} is no member of team {team}; ask one of its owners")
    user_id = who.user_id if user == who.name else user_id_of(reader, user)
    if user != who.name:
        if not (who.is_admin or who.is_maintainer or hands_over):
            raise Denied("a lease for someone else is made by maintainers of the team and admins")
        if role_in(reader, team_id, user_id) is None and not is_admin(reader, user_id):
            raise InvalidInput(f"{user} is no member of team {team}; `yard team` shows who is")
    holder = LeaseHolder(
        team=team,
        user=user,
        is_exempt=who.is_admin,
        sees_all=who.is_admin,
        zone=zone_of(zone),
    )
    return Named(holder, team_id, user_id)
