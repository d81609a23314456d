"""Data sets: content-addressed versions, their files, uses and clean-up. Knows no HTTP."""
