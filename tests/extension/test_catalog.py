"""Does the extension know today's names and options, and is it built from what is committed?"""

import json
import re
from pathlib import Path

import nki_lab
import nki_lab.language as nl
from nki_lab.isa import registry
from nki_lab.magics.catalog import catalog
from nki_lab.targets import ALL_TARGETS
from tests.golden import Golden

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "extension"
BUILT = ROOT / "nki_lab" / "labextension"


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_catalog_file_is_current(golden: Golden) -> None:
    """To write it anew and build the extension with it, run `make catalog`."""
    golden(json.dumps(catalog(), indent=1) + "\n", "../../extension/src/catalog.json")


def test_the_catalog_names_what_kernels_are_written_with() -> None:
    known = catalog()
    assert [d.name for d in registry.values() if d.name not in known["modules"][d.module]] == []
    assert known["modules"]["nki.language"] == sorted(nl.__all__)
    assert {"jit", "isa", "language"} <= set(known["modules"]["nki"])
    assert {"--run", "--check", "--target"} <= set(known["magics"]["%%nki"])
    assert "trn2" in known["magics"]["%%nki"]["--target"]


def test_the_built_files_know_the_catalog() -> None:
    """The bundle holds the JSON as JavaScript, so it is searched for the names."""
    built = "\n".join(file.read_text(encoding="utf-8") for file in BUILT.rglob("*.js"))
    known = catalog()
    words = {*(w for names in known["modules"].values() for w in names), *known["magics"]["%%nki"]}
    assert sorted(w for w in words if not re.search(rf"(?<![\w-]){w}(?![\w-])", built)) == []


def test_the_settings_offer_the_chips_there_are() -> None:
    setting = read(EXTENSION / "schema" / "settings.json")["properties"]["defaultTarget"]
    assert setting["enum"] == ["", *(target.name for target in ALL_TARGETS)]


def test_versions_agree() -> None:
    assert read(EXTENSION / "package.json")["version"] == nki_lab.__version__
    assert read(EXTENSION / "package-lock.json")["version"] == nki_lab.__version__
    assert read(BUILT / "package.json")["version"] == nki_lab.__version__


def test_it_is_a_release_build_and_small() -> None:
    assert not (BUILT / "build_log.json").exists(), "a development build; run `make extension`"
    assert sum(file.stat().st_size for file in BUILT.rglob("*") if file.is_file()) < 500_000


def test_the_lock_file_pins_checksums_but_no_addresses() -> None:
    packages = read(EXTENSION / "package-lock.json")["packages"]
    installed = {name: package for name, package in packages.items() if name}
    assert [name for name, package in installed.items() if "integrity" not in package] == []
    assert [name for name, package in installed.items() if "resolved" in package] == []
