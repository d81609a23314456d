"""One file per migration, never edited after its release."""
