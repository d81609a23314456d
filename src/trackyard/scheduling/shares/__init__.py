"""Teams, departments, quotas, and what is asked for by default. Pure."""
