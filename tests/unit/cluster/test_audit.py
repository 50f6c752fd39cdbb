import re
from pathlib import Path

import pytest
from pysyncobj import SyncObj, syncobj

import cluster
from cluster import audit
from cluster.outcome import Unfit

PACKAGE = Path(str(cluster.__file__)).parent


def test_the_installed_library_is_the_audited_one() -> None:
    audit.check_library()


def test_a_changed_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "FILES", {**audit.FILES, "syncobj.py": "0" * 64})
    with pytest.raises(Unfit, match=r"syncobj\.py differs"):
        audit.check_library()


def test_a_missing_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for names, name in (("CALLED", "_SyncObj__gone"), ("FIELDS", "_SyncObj__lost"), ("BORROWED", "absent")):
        with monkeypatch.context() as patch:
            patch.setattr(audit, names, {name})
            with pytest.raises(Unfit, match=name):
                audit.check_library()


def test_a_replaced_method_that_the_library_no_longer_calls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SyncObj, "_onTick", lambda *_: None)
    assert "_checkCommandsToApply" in audit.missing_names()


def test_only_the_voter_touches_private_names_and_only_listed_ones() -> None:
    private = re.compile(r"_SyncObj__\w+")
    for file in PACKAGE.glob("*.py"):
        found = set(private.findall(file.read_text()))
        if file.name == "voter.py":
            listed = audit.REPLACED | audit.CALLED | audit.FIELDS
            assert found == {name for name in listed if name.startswith("_SyncObj__")}
        elif file.name != "audit.py":
            assert not found, file.name


def test_every_module_of_the_library_that_runs_is_audited() -> None:
    folder = Path(syncobj.__file__).parent
    unused = {"batteries.py", "syncobj_admin.py", "win_inet_pton.py"}
    assert {file.name for file in folder.glob("*.py")} - unused == set(audit.FILES)
