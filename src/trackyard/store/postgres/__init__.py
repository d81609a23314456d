"""What only PostgreSQL needs: patience with a server that is away, and locks among servers."""
