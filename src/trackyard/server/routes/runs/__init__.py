"""The native API of runs, imports, logbooks and data sets."""
