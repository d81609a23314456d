"""How a client script says what it saw: expectation beside the call, one line per check.

Runs inside a client environment; knows the MLflow client and nothing of the server.
"""

import traceback
from collections.abc import Callable
from typing import Any

import mlflow
from mlflow.exceptions import MlflowException

GENERATION = int(mlflow.__version__.split(".")[0])


class Checks:
    """Collects checks and facts; calls.py prints them."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self.failed: list[str] = []
        self.passed = 0
        self.facts: dict[str, Any] = {}

    def same(self, what: str, got: Any, expected: Any) -> None:
        """Insist that two values are equal."""
        if got == expected:
            self.passed += 1
        else:
            self.failed.append(f"{what}: expected {expected!r}, got {got!r}")

    def true(self, what: str, holds: Any) -> None:
        """Insist that something holds."""
        self.same(what, bool(holds), True)

    def refused(self, what: str, call: Callable[[], Any], code: str, says: str = "") -> None:
        """Insist that a call raises MlflowException with an error code and a message part."""
        try:
            result = call()
        except MlflowException as error:
            self.same(f"{what} (code; message {str(error)[:200]!r})", error.error_code, code)
            if says:
                self.true(f"{what}: message has {says!r}, is {str(error)!r}", says in str(error))
        else:
            self.failed.append(f"{what}: expected {code}, but it was accepted: {result!r}")

    def fails(self, what: str, call: Callable[[], Any]) -> None:
        """Insist that a call raises MlflowException; which code it carries is left open."""
        try:
            result = call()
        except MlflowException:
            self.passed += 1
        else:
            self.failed.append(f"{what}: expected an error, but it was accepted: {result!r}")

    def fails_with(self, what: str, call: Callable[[], Any], kind: type[Exception]) -> None:
        """Insist that a call raises an exception of a kind."""
        try:
            result = call()
        except kind:
            self.passed += 1
        else:
            self.failed.append(f"{what}: expected {kind.__name__}, but got {result!r}")

    def fact(self, name: str, value: Any) -> None:
        """Hand a value to the test that started this script."""
        self.facts[name] = value

    def section(self, name: str, work: Callable[[], None]) -> None:
        """Run one part; an exception fails it and lets the next begin."""
        try:
            work()
        except Exception:
            self.failed.append(f"{name} stopped: {traceback.format_exc(limit=-6)}")
