"""Storage: schema, migrations, connections and the group-commit writer.

SQLite and PostgreSQL lie behind one interface.
"""
