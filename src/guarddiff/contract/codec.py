"""Contracts as JSON: versioned and strict."""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeVar

from guarddiff.contract.contract import Contract
from guarddiff.core import records
from guarddiff.core.errors import ContractError

FORMAT = "guarddiff-contract"
VERSION = 1
MAX_SIZE = 16 * 1024 * 1024
"""Longest text that is read, in characters."""

_Record = TypeVar("_Record")


def dumps(contract: Contract) -> str:
    """The contract as JSON text in ASCII, with a checksum of its own."""
    return seal(contract, FORMAT, VERSION)


def loads(text: str) -> Contract:
    """The contract that ``text`` holds. Raises ``ContractError`` with one line that says what is wrong: no contract,
    torn or changed by hand, of a newer version."""
    return unseal(text, Contract, FORMAT, VERSION, "contract")


def seal(record: Any, format: str, version: int) -> str:
    """A record as JSON text in ASCII, with the format's name and version and a checksum."""
    body = records.encode(record)
    head = {"format": format, "version": version, "checksum": _checksum(body)}
    return json.dumps({**head, **body}, indent=1, allow_nan=False, ensure_ascii=True) + "\n"


def unseal(text: str, cls: type[_Record], format: str, newest: int, word: str) -> _Record:
    """The record of class ``cls`` that ``seal`` made ``text`` of; ``word`` names it in the ContractError that is
    raised for another text."""
    if len(text) > MAX_SIZE:
        raise ContractError(f"not read: longer than the limit of {MAX_SIZE // 1024**2} MB for a {word}")
    try:
        mapping = records.parse(text)
    except records.JsonError as err:
        raise ContractError(f"not a readable {word}: {err}") from None
    fault = records.unheaded(mapping, format, newest, word)
    if fault:
        raise ContractError(fault)
    body = {key: value for key, value in mapping.items() if key not in ("format", "version", "checksum")}
    if mapping.get("checksum") != _checksum(body):
        raise ContractError(f"the {word} is torn or was changed: its checksum does not match")
    try:
        record: _Record = records.decode(cls, body, word)
    except records.RecordError as err:
        raise ContractError(f"not a readable {word}: {err}") from None
    return record


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, ensure_ascii=True).encode()).hexdigest()
