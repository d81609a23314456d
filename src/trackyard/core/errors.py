"""The errors users meet, each with a stable code, an HTTP status and a remedy.

YardError
├── InvalidInput        INVALID_PARAMETER_VALUE   400  the request is wrong
├── BadRequest          BAD_REQUEST               400  the request cannot be read
├── AlreadyExists       RESOURCE_ALREADY_EXISTS   400  the name is taken
├── NotFound            RESOURCE_DOES_NOT_EXIST   404  no such thing, or not yours to see
├── EndpointNotFound    ENDPOINT_NOT_FOUND        404  no such route
├── WrongMethod         ENDPOINT_NOT_FOUND        405  the path takes other methods
├── Unauthenticated     UNAUTHENTICATED           401  no credential, or one that is not valid
├── Denied              PERMISSION_DENIED         403  the credential does not reach this
├── Conflict            ABORTED                   409  someone else changed it, or an old epoch
├── LeaseRefused        LEASE_REFUSED             409  the calendar or a rule stands in the way
├── TooSlow             DEADLINE_EXCEEDED         408  the body took too long to arrive
├── TooLarge            REQUEST_LIMIT_EXCEEDED    413  body over its limit
├── HeadTooLarge        REQUEST_LIMIT_EXCEEDED    431  header lines over their limit
├── WrongMediaType      BAD_REQUEST               415  body of a type this call does not read
├── RangeNotSatisfiable INVALID_PARAMETER_VALUE   416  byte range outside the file
├── Unsupported         NOT_IMPLEMENTED           501  MLflow has it, this server does not
├── TooBusy             TEMPORARILY_UNAVAILABLE   503  come back after Retry-After
├── TooMany             REQUEST_LIMIT_EXCEEDED    429  rate limit of this principal
├── OutOfSpace          RESOURCE_EXHAUSTED        507  the disk is full
└── InternalFault       INTERNAL_ERROR            500  our fault, logged with a request id

Configuration faults at start are SetupError: one sentence and a hint, exit code 2.
"""

from __future__ import annotations

from typing import Any


class YardError(Exception):
    """Something a user can read and act on."""

    code = "INTERNAL_ERROR"
    status = 500

    def __init__(
        self,
        message: str,
        *,
        retry_after: int | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after
        #: facts for programs, JSON-ready
        self.details = details


class InvalidInput(YardError):
    """A value in the request is not allowed."""

    code = "INVALID_PARAMETER_VALUE"
    status = 400


class BadRequest(YardError):
    """The request cannot be read at all."""

    code = "BAD_REQUEST"
    status = 400


class AlreadyExists(YardError):
    """The name is taken."""

    code = "RESOURCE_ALREADY_EXISTS"
    status = 400


class NotFound(YardError):
    """No such thing, or not the caller's to see."""

    code = "RESOURCE_DOES_NOT_EXIST"
    status = 404


class EndpointNotFound(YardError):
    """No route answers this method and path."""

    code = "ENDPOINT_NOT_FOUND"
    status = 404


class WrongMethod(EndpointNotFound):
    """The path is there, and takes other methods."""

    status = 405


class Unauthenticated(YardError):
    """No credential came with the request, or it is not valid."""

    code = "UNAUTHENTICATED"
    status = 401


class Denied(YardError):
    """The credential is valid but does not reach this."""

    code = "PERMISSION_DENIED"
    status = 403


class Conflict(YardError):
    """The state moved on, or the writer's epoch is old."""

    code = "ABORTED"
    status = 409


class LeaseRefused(YardError):
    """The lease cannot be as asked: another is in the way, or a rule is."""

    code = "LEASE_REFUSED"
    status = 409


class TooSlow(YardError):
    """The request took too long to arrive; nothing was done."""

    code = "DEADLINE_EXCEEDED"
    status = 408


class WrongMediaType(YardError):
    """The body is not of the type this route reads."""

    code = "BAD_REQUEST"
    status = 415


class RangeNotSatisfiable(YardError):
    """The byte range asked for lies outside the file."""

    code = "INVALID_PARAMETER_VALUE"
    status = 416


class TooLarge(YardError):
    """The body is over its limit."""

    code = "REQUEST_LIMIT_EXCEEDED"
    status = 413


class HeadTooLarge(YardError):
    """The header lines are over their limit."""

    code = "REQUEST_LIMIT_EXCEEDED"
    status = 431


class Unsupported(YardError):
    """MLflow has this call; this server does not serve it."""

    code = "NOT_IMPLEMENTED"
    status = 501


class TooBusy(YardError):
    """The server cannot take this now; it says when to come back."""

    code = "TEMPORARILY_UNAVAILABLE"
    status = 503


class TooMany(YardError):
    """This principal asks too often."""

    code = "REQUEST_LIMIT_EXCEEDED"
    status = 429


class OutOfSpace(YardError):
    """The disk is full; free some space and try again."""

    code = "RESOURCE_EXHAUSTED"
    status = 507


class InternalFault(YardError):
    """A fault of the server; its log holds the request id."""


class SetupError(Exception):
    """The server or a command cannot start as configured."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
