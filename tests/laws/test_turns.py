"""Two statements of nearly the same words that say different things are both kept."""

from __future__ import annotations

import pytest

from bede.arbitration import find_duplicate
from bede.errors import Rejected

PAIRS = [
    (
        "The migration must run before the deploy of the workers",
        "The migration must not run before the deploy of the workers",
    ),
    (
        "The proxy of the staging cluster listens on port 8080 of every host",
        "The proxy of the staging cluster listens on port 8081 of every host",
    ),
    (
        "The nightly import of the ledger passes on all of the machines",
        "The nightly import of the ledger fails on all of the machines",
    ),
    (
        "The cache is enabled for anonymous readers of the public pages",
        "The cache is disabled for anonymous readers of the public pages",
    ),
    (
        "page item 1 of the long list that the team keeps for the release",
        "page item 10 of the long list that the team keeps for the release",
    ),
    (
        "部署之前必须先运行数据库迁移脚本才可以",
        "部署之前不必须先运行数据库迁移脚本才可以",
    ),
    (
        "The retry doesn't happen when the ledger table is locked by a reader",
        "The retry does happen when the ledger table is locked by a reader",
    ),
]


@pytest.mark.parametrize(("one",
        "other"), PAIRS)
def test_an_opposite_or_another_number_is_no_duplicate(one, other):
    find_duplicate({"summary": other}, [("a" * 64, {"summary": one})])
    find_duplicate({"summary": one}, [("a" * 64, {"summary": other})])


@pytest.mark.parametrize("one", [pair[0] for pair in PAIRS])
def test_the_same_again_is_a_duplicate(one):
    with pytest.raises(Rejected) as refused:
        find_duplicate({"summary": f"  {one.upper()}"}, [("a" * 64, {"summary": one})])
    assert refused.value.reason == "duplicate_content"
