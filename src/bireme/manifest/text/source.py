"""Reads files and text into trees that know the line and column of every value.

YAML and JSON are read, with several documents in a file. Everything a stranger's file can do to a reader
(huge, deep, full of aliases, not text at all) ends in BadManifest, quickly and with a sentence.
"""

from __future__ import annotations

import codecs
import os
import re
import shlex
from pathlib import Path
from typing import NoReturn

from bireme.core.scripts.interpreters import ENDINGS
from bireme.errors import BadManifest
from bireme.manifest.diagnostics import Diagnostic, Diagnostics
from bireme.manifest.text import json_reader, yaml_reader
from bireme.manifest.text.nodes import Document, Mark, Node
from bireme.manifest.text.tree_builder import Builder
from bireme.model import quantities

__all__ = ["MOST_BYTES", "Document", "Mark", "Node", "read_path", "read_text"]

MOST_BYTES = 4 * 1024 * 1024
_SUFFIXES = (".yaml", ".yml", ".json")

# What YAML allows; without this, its parser would name the character but not the line.
_NOT_ALLOWED = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BYTE_ORDER_MARK = "\ufeff"
_WHOLE_FILE = Mark(0, 0)


def read_path(path: Path, diagnostics: Diagnostics | None = None) -> list[Document]:
    """Reads a file, or every manifest of a folder by name; subfolders and hidden files are left alone.

    What cannot be read is refused, or, where diagnostics are gathered, added to them.
    """
    documents: list[Document] = []
    noted = diagnostics or Diagnostics()
    files = [path]
    try:
        if path.is_dir():
            files = [
                each
                for each in sorted(path.iterdir())
                if each.suffix.lower() in _SUFFIXES and not each.name.startswith(".") and each.is_file()
            ]
    except OSError as error:
        files = []
        noted.error(None, "", _reason(error), file=str(path))
    else:
        if not files:
            hint = "names must end in .yaml, .yml or .json"
            noted.error(None, "", "the folder holds no manifest", hint, file=str(path))
    for file in files:
        try:
            documents += read_text(_content(file), str(file))
        except BadManifest as error:
            for each in error.diagnostics:
                if isinstance(each, Diagnostic):
                    noted.add(each)
    if diagnostics is None:
        noted.raise_if_any()
    return documents


def read_text(text: bytes | str, file: str = "<stdin>") -> list[Document]:
    """Reads every document of a text; those that hold nothing are left out."""
    _check_size(file, len(text))
    if isinstance(text, str):
        characters = text
    else:
        try:
            characters = text.decode("utf-8")
        except UnicodeDecodeError as error:
            mark = _mark(text[: error.start].decode("utf-8"), error.start)
            wide = text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            hint = f"the file is {'UTF-16' if wide else 'in another encoding or not text'}; save it as UTF-8"
            byte = text[error.start]
            _refuse(file, f"byte 0x{byte:02x} at offset {error.start} is not UTF-8", hint, mark)
    characters = characters.removeprefix(_BYTE_ORDER_MARK)
    if odd := _NOT_ALLOWED.search(characters):
        mark = _mark(characters, odd.start())
        _refuse(file, f"the character U+{ord(odd[0]):04X} is not allowed in a manifest", mark=mark)
    documents = _parsed(characters, file)
    if not documents:
        _refuse(file, "the file is empty" if not characters.strip() else "the file holds no document")
    return documents


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            _check_size(str(file), os.fstat(stream.fileno()).st_size)
            # A pipe has no size beforehand, and must not fill the memory either.
            content = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        _refuse(str(file), _reason(error))
    is_program = content.startswith(b"#!") or b"\0" in content or file.suffix in ENDINGS
    if is_program and file.suffix.lower() not in _SUFFIXES:
        # It is meant to be run: diagnostics about its YAML would not help.
        _refuse(str(file), "it is not a manifest", f"to run it: bireme run {shlex.quote(str(file))}")
    return content


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file or folder"
    strerror = error.strerror if isinstance(error, OSError) else None
    return f"it cannot be read: {strerror or error}"


def _check_size(file: str, size: int) -> None:
    if size <= MOST_BYTES:
        return
    shown = quantities.show_memory(size) if size > MOST_BYTES + 1 else "more"
    _refuse(
        file,
        f"the manifest is too large: at most {quantities.show_memory(MOST_BYTES)} are read, found {shown}",
    )


def _parsed(characters: str, file: str) -> list[Document]:
    if not json_reader.looks_like_json(characters):
        return _parsed_as_yaml(characters, file)
    builder = Builder(file)
    try:
        json_reader.read(characters, builder)
    except json_reader.NotJson as not_json:
        # It may be YAML that begins with a bracket; if it is neither, its first key tells which was meant.
        try:
            return _parsed_as_yaml(characters, file)
        except BadManifest:
            if json_reader.is_meant_as_json(characters):
                _refuse(file, f"the text is not JSON: {not_json.text}", mark=not_json.mark)
            raise
    return builder.documents()


def _parsed_as_yaml(characters: str, file: str) -> list[Document]:
    builder = Builder(file)
    yaml_reader.read(characters, builder)
    return builder.documents()


def _mark(text: str, offset: int) -> Mark:
    before = text[:offset]
    return Mark(before.count("\n") + 1, len(before) - before.rfind("\n"))


def _refuse(file: str, text: str, hint: str = "", mark: Mark = _WHOLE_FILE) -> NoReturn:
    raise BadManifest.of([Diagnostic(file, mark.line, mark.column, "", text, hint)])
