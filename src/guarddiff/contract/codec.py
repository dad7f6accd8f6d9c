"""Contracts as JSON: versioned and strict."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from guarddiff.contract.contract import Contract
from guarddiff.core import records
from guarddiff.core.errors import ContractError

FORMAT = "guarddiff-contract"
VERSION = 1
MAX_SIZE = 16 * 1024 * 1024
"""Longest text that is read, in characters."""


def dumps(contract: Contract) -> str:
    """The contract as JSON text in ASCII, with a checksum of its own."""
    body = records.encode(contract)
    head = {"format": FORMAT, "version": VERSION, "checksum": _checksum(body)}
    return json.dumps({**head, **body}, indent=1, allow_nan=False, ensure_ascii=True) + "\n"


def loads(text: str) -> Contract:
    """The contract that ``text`` holds. Raises ``ContractError`` with one line that says what is wrong: no contract,
    torn or changed by hand, of a newer version."""
    if len(text) > MAX_SIZE:
        raise ContractError(f"not read: longer than the limit of {MAX_SIZE // 1024**2} MB for a contract")
    try:
        mapping = records.parse(text)
    except records.JsonError as err:
        raise ContractError(f"not a readable contract: {err}") from None
    if not isinstance(mapping, dict) or mapping.get("format") != FORMAT:
        raise ContractError(f'not a contract: it has no "format": "{FORMAT}"')
    version = mapping.get("version")
    if type(version) is not int or version < 1:
        raise ContractError(f"not a contract: its version is {records.shown(version)}")
    if version > VERSION:
        raise ContractError(
            f"the contract has version {records.shown(version)} and comes from a newer guarddiff; this one reads up "
            f"to version {VERSION}: upgrade guarddiff to read it"
        )
    body = {key: value for key, value in mapping.items() if key not in ("format", "version", "checksum")}
    if mapping.get("checksum") != _checksum(body):
        raise ContractError("the contract is torn or was changed: its checksum does not match")
    try:
        contract: Contract = records.decode(Contract, body, "contract")
    except records.RecordError as err:
        raise ContractError(f"not a readable contract: {err}") from None
    return contract


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, ensure_ascii=True).encode()).hexdigest()
