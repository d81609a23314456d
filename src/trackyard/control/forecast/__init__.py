"""What will come of waiting jobs: asked of a process of its own, or worked out for one job."""
