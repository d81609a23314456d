"""The columns tables are made of, and the metadata they share. Owns no table."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, MetaData, Text
from sqlalchemy.types import TypeEngine

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: 64 bits everywhere; SQLite needs INTEGER to make it the row id.
BIG: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")


def big_id() -> Column[int]:
    """Return a key the database counts up."""
    return Column("id", BIG, primary_key=True, autoincrement=True)


def ref(name: str, target: str, *, nullable: bool = False) -> Column[int]:
    """Return a reference that goes with what it points at."""
    return Column(name, BIG, ForeignKey(target, ondelete="CASCADE"), nullable=nullable)


def words(name: str, *, nullable: bool = False) -> Column[str]:
    """Return a column of text."""
    return Column(name, Text, nullable=nullable)


def integer(name: str, *, nullable: bool = False) -> Column[int]:
    """Return a column of whole numbers."""
    return Column(name, BigInteger, nullable=nullable)
