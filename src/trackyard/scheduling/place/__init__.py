"""Where a job goes: nodes and their free capacity, and the choice among those that fit."""
