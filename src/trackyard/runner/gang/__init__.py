"""Several members of one attempt: meeting, launchers, preflight, a remote shell."""
