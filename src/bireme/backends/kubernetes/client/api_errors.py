"""Says what the API server refused, and why: the one error of the client."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from bireme.model.decode_errors import DAMAGED

UNREACHABLE = "Unreachable"
"""No connection could be made, so nothing was done."""
DISCONNECTED = "Disconnected"
"""The connection broke after the request was sent: it may have been carried out."""
UNTRUSTED = "Untrusted"
"""The server's certificate, or ours, was not accepted."""
UNREADABLE = "Unreadable"
"""The answer is not what the API server would have said."""


LONGEST_RETRY = 600
"""Seconds that a server can make us wait before the next try, whatever it asks for."""


class RequestOrigin(Struct, frozen=True):
    """Which user asked what of which server."""

    server: str = ""
    context: str = ""
    user: str = ""
    method: str = ""
    path: str = ""


class ApiError(Exception):
    """The API server refused a request, or could not be asked; the status is 0 if there was no answer."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,  # JSON of the server's choice
        *,
        source: RequestOrigin | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details: dict[str, Any] = details or {}
        self.source = source or RequestOrigin()
        self.retry_after = retry_after

    @property
    def name_is_taken(self) -> bool:
        """Whether there is an object of the name already.

        The status alone does not tell: a quota that two requests use at once answers 409, too.
        """
        return self.status == 409 and self.reason == "AlreadyExists"

    def __str__(self) -> str:
        asked = f"{self.source.method} {self.source.path}: " if self.source.path else ""
        return f"{asked}{self.status or 'no answer'}, {self.reason}: {self.message}"


class ApiStatus(Struct, frozen=True):
    """How the API server writes down a refusal."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None


def refusal(status: int, body: bytes, source: RequestOrigin, retry_after: str = "") -> ApiError:
    """Makes the error of an answer, which is a Status unless something between us and the server spoke."""
    try:
        said = _STATUS.decode(body)
    except DAMAGED:
        said = ApiStatus(message=" ".join(body[:200].decode(errors="replace").split()))
    told = (said.details or {}).get("retryAfterSeconds")
    wait: float | None = None
    if retry_after.isdecimal():
        wait = min(float(retry_after), LONGEST_RETRY)
    elif isinstance(told, int) and told > 0:
        wait = float(min(told, LONGEST_RETRY))
    return ApiError(
        status,
        said.reason or _REASONS.get(status, "Unknown"),
        said.message or "the server gave no reason",
        said.details,
        source=source,
        retry_after=wait,
    )


_STATUS = msgspec.json.Decoder(ApiStatus)
_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
