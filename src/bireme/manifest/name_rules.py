"""Checks names by the rules of Kubernetes, and reports in its sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST_CHARACTERS = 63
"""A DNS label is no longer, and so is no name of a replica."""

_LONGEST_MISSPELT = 40

_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_VARIABLE = re.compile(r"[ -<>-~]+")

_TEXT_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name', or 'abc-123')"
)
_TEXT_1123 = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name', or '123-abc')"
)
_TEXT_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com')"
)
_TEXT_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name', or "
    "'KEY_NAME', or 'key-name')"
)


def wrong_label_1035(name: str) -> str:
    """Says what is wrong with the name of a job, or nothing."""
    return _wrong(name, _LABEL_1035, _TEXT_1035)


def wrong_job_name(name: str) -> str:
    """Says what is wrong with the name that a person gives to a job, and which one would do; or nothing."""
    if not wrong_label_1035(name):
        return ""
    meant = label_of(name)[:MOST_CHARACTERS].rstrip("-")
    advice = f"; try {meant}" if meant else ""
    if len(name) > MOST_CHARACTERS:
        return f"names have no more than {MOST_CHARACTERS} characters{advice}"
    if not re.fullmatch("[-a-z0-9]*", name):
        return f"names have a-z, 0-9 and -{advice}"
    if not name[:1].isalpha():
        return f"names begin with a letter{advice}"
    return f"names end with a letter or a digit{advice}"


def wrong_label(name: str) -> str:
    """Says what is wrong with the name of a container, a volume or a namespace, or nothing."""
    return _wrong(name, _LABEL_1123, _TEXT_1123)


def wrong_subdomain(name: str) -> str:
    """Says what is wrong with the name of an object that may hold dots, or nothing."""
    return _wrong(name, _SUBDOMAIN, _TEXT_SUBDOMAIN, most=253)


def wrong_variable(name: str) -> str:
    """Says what is wrong with the name of an environment variable, or nothing."""
    if _VARIABLE.fullmatch(name):
        return ""
    return "a valid environment variable name must consist only of printable ASCII characters other than '='"


def wrong_key(key: str) -> str:
    """Says what is wrong with a key of a ConfigMap or a Secret, which names a file, or nothing."""
    if key == "." or key.startswith(".."):
        return f"{_TEXT_KEY}, and must not be '.' or start with '..'"
    return _wrong(key, _KEY, _TEXT_KEY, most=253)


def label_of(text: str) -> str:
    """Makes a DNS label of any text, as near to it as possible; empty where nothing of it can be kept."""
    label = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return re.sub(r"^[0-9-]+", "", label)


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns the known name that was probably meant, or nothing."""
    # Comparing takes time, so only what looks alike at first sight is compared.
    small = name.lower()[:_LONGEST_MISSPELT]
    alike = {each.lower(): each for each in known if each[:1].lower() == small[:1]}
    import difflib  # here, because it is hardly ever needed

    matches = difflib.get_close_matches(small, alike, n=1)
    return alike[matches[0]] if matches else ""


def _wrong(name: str, shape: re.Pattern[str], text: str, most: int = MOST_CHARACTERS) -> str:
    if len(name) > most:
        return f"must be no more than {most} characters"
    return "" if shape.fullmatch(name) else text
