"""Alerts: rules, the incidents they open, and who is notified.

Rules are judged by a pure function (`evaluate`); the loop that feeds it runs on the server that
schedules (`loop`), and what it found is one transaction (`applying`). Messages are rows before
they are sent (`outbox`).
"""
