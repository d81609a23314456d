"""The runner inside a Slurm job."""
