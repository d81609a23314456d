"""Access, administration, alerts, events, figures, and the web pages."""
