"""Artifacts: blobs on disk or in an object store, under the paths users know. Knows no HTTP."""
