"""Tests that the extension knows today's names and options, and is built from what is committed."""

import json
import re
from pathlib import Path

import nki_lab
import nki_lab.language as nl
from nki_lab.api.official import BETA1_API
from nki_lab.isa import registry
from nki_lab.magics.catalog import catalog, with_chips
from nki_lab.session.questions import options_of
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
    assert [
        d.name
        for d in registry.values()
        if d.module != "nki.isa.NkiScalar" and d.name not in known["modules"][d.module]
    ] == []
    assert known["modules"]["nki.language"] == sorted(nl.__all__)
    assert {"jit", "isa", "language"} <= set(known["modules"]["nki"])


def test_the_catalog_has_every_magic_and_option() -> None:
    known = catalog()
    assert {"%%nki", "%nki", "%nki_target", "%nki_explain", "%nki_timeline"} <= known[
        "magics"
    ].keys()
    assert known["magics"]["%%nki"]["options"] == [option.flag for option in options_of("%%nki")]
    assert known["magics"]["%nki_target"]["words"] == ["trn1", "trn2", "trn3"]
    assert "nc_matmul" in known["magics"]["%nki_explain"]["words"]
    options = known["options"]
    assert "trn2" in options["--target"]["values"]
    assert [flag for flag, option in options.items() if "many" in option] == [
        "--show",
        "--analyse",
        "--what-if",
        "--skip",
        "--allow",
    ]
    assert options["--what-if"]["values"]["free-loads"] == "loads took no time"


def test_every_name_has_an_entry_and_every_reference_a_goal() -> None:
    known = catalog()
    entries = known["entries"]
    named = [f"{module}.{name}" for module, names in known["modules"].items() for name in names]
    assert [name for name in named if name not in entries] == []
    assert [e for e in entries.values() if e.get("see", "nki.isa") not in entries] == []
    sets = [name for e in entries.values() for name in e.get("takes", {}).values()]
    assert set(sets) == known["sets"].keys()
    short = known["ready"]
    older = known["dialects"]["beta1"]["ready"]
    for owner, entry in entries.items():
        ready = older if owner.startswith("neuronxcc.") else short
        for value in (v for name in entry.get("takes", {}).values() for v in known["sets"][name]):
            alias, _, name = value.partition(".")
            assert value in ("True", "False") or f"{ready[alias]}.{name}" in entries, value


def test_an_entry_says_what_the_page_of_an_instruction_says() -> None:
    """The numbers are those of the documentation and of `explain`, written down by hand."""
    known = catalog()
    matmul = known["entries"]["nki.isa.nc_matmul"]
    assert matmul["call"][:4] == ["dst", "stationary", "moving", "is_stationary_onezero=False"]
    assert matmul["engines"] == ["tensor"]
    assert matmul["operands"]["moving"].startswith("read, in sbuf")
    assert "targets" not in matmul
    double = "`perf_mode` double_row needs a target with `matmul_double_row` (trn2, trn3)"
    assert double in matmul["limits"]
    (cost,) = matmul["cost"]
    assert cost["steps"].keys() == {"trn1", "trn2", "trn3"}
    assert cost["steps"]["trn1"][-1] == "MATMUL: 512 cycles on tensor, 183 ns"
    assert known["entries"]["nki.isa.quantize_mx"]["targets"] == ["trn3"]
    sizes = known["entries"]["nki.language.tile_size.pmax"]["facts"]
    assert sizes == {"trn1": ["128"], "trn2": ["128"], "trn3": ["128"]}


def test_parameters_know_their_values() -> None:
    known = catalog()

    def taken(name: str, parameter: str) -> list[str]:
        return known["sets"][known["entries"][name]["takes"][parameter]]

    operators = taken("nki.isa.tensor_tensor", "op")
    assert "nl.add" in operators and "nl.bitwise_xor" in operators and "nl.exp" not in operators
    functions = taken("nki.isa.activation", "op")
    assert "nl.exp" in functions and "nl.maximum" not in functions
    assert set(taken("nki.isa.tensor_tensor", "engine")) == {
        "nisa.engine.vector",
        "nisa.engine.gpsimd",
        "nisa.engine.unknown",
    }
    assert taken("nki.isa.nc_matmul", "is_transpose") == ["True", "False"]
    assert "nl.bfloat16" in taken("nki.language.ndarray", "dtype")
    assert "nl.psum" in taken("nki.language.ndarray", "buffer")
    assert "takes" not in known["entries"]["nki.collectives.rank_id"]


def test_it_has_every_official_name_of_the_older_dialect_with_its_parameters() -> None:
    """The official stubs write `*` between parameters, which no call shows."""
    known = catalog()
    for module, names in BETA1_API["names"].items():
        assert [name for name in names if name not in known["modules"][module]] == []
    for module, functions in BETA1_API["functions"].items():
        for name, signature in functions.items():
            entry = known["entries"][f"{module}.{name}"]
            official = [p.partition("=")[0] for p in signature.split() if p not in ("*", "/")]
            ours = [p.partition("=")[0] for p in entry.get("call", official)]
            assert ours[: len(official)] == official or module == "neuronxcc.nki", name
    assert known["dialects"]["beta1"]["root"] == "neuronxcc"
    assert known["modules"]["neuronxcc.nki.compiler.sbuf"] == ["alloc", "auto_alloc", "mod_alloc"]
    load = known["entries"]["neuronxcc.nki.language.load"]
    assert load["call"] == ["src", "mask=None", "dtype=None", "**kwargs"]
    activation = known["entries"]["neuronxcc.nki.isa.activation"]
    assert "reduce_cmd=nisa.reduce_cmd.idle" in activation["call"]
    assert "nl.exp" in known["sets"][activation["takes"]["op"]]


def test_the_built_files_know_the_catalog() -> None:
    """The bundle holds the JSON as JavaScript, so it is searched for the names."""
    built = "\n".join(file.read_text(encoding="utf-8") for file in BUILT.rglob("*.js"))
    known = catalog()
    words = {*(w for names in known["modules"].values() for w in names), *known["options"]}
    assert sorted(w for w in words if not re.search(rf"(?<![\w-]){w}(?![\w-])", built)) == []


def test_the_settings_file_is_current(golden: Golden) -> None:
    """The settings offer the chips there are."""
    file = EXTENSION / "schema" / "settings.json"
    golden(
        json.dumps(with_chips(read(file)), indent=2) + "\n", "../../extension/schema/settings.json"
    )


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
