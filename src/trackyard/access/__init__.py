"""Who may do what: teams, users, roles, tokens and sessions. Knows no HTTP."""
