"""Sums of products of 8-bit integers in groups of four are exact, by the instructions that a processor has for them."""

from typing import Any

PAIRS, BYTES, VNNI, WORDS = "vpmaddwd", "vpmaddubsw", "vpdpbusd", "vpaddw"
"""The last adds up the sums of several words in 16 bits."""

EXPECTED = {"VNNI": {VNNI}, "narrow": {BYTES, PAIRS, WORDS}, "few": {BYTES, PAIRS}, "all": {PAIRS}}
"""Instructions by the end of a case's name: the processor's, or those that the weights leave room for."""


def test_groups_of_four_are_exact(cases: Any) -> None:
    found = {case["case"]: case for case in cases("quad_cases.py")}
    assert [name for name, case in found.items() if not case["equal"]] == []
    kinds = {name: {each for each, count in case["instructions"].items() if count} for name, case in found.items()}
    assert {name: EXPECTED[name.split(", ")[1]] for name in kinds} == kinds
    assert all(sum(name.split(", ")[1] == each for name in kinds) >= 2 for each in EXPECTED)
