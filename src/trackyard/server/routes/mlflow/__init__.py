"""MLflow's REST protocol."""
