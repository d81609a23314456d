"""What leaves the platform when something happens in it. Today: webhooks of the model registry."""
