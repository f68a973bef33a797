"""`nki-lab bench`: its rows, and the comparison with earlier ones."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from nki_lab import kernels
from nki_lab.cli.main import app
from nki_lab.errors import BadFile
from nki_lab.kernels.bench import changes, load_rows, measure, save_rows, table

SIZE = {"rows": 256, "width": 2048}


@pytest.fixture(scope="module")
def row():
    return measure(kernels.get("rmsnorm"), SIZE, "float32", target="trn2")


def test_a_row_counts_what_the_formulas_say(row):
    # x and the result are 256 x 2048 of 4 bytes, gamma is read once for each of 128 partitions.
    least = 2 * 256 * 2048 * 4 + 2048 * 4
    moved = 2 * 256 * 2048 * 4 + 128 * 2048 * 4
    assert row.hbm_ratio == pytest.approx(moved / least, abs=1e-3)
    assert (row.mfu, row.target, row.size) == (0, "trn2", "rows=256,width=2048")
    assert 0.4 < row.attained <= 1


def test_mfu_is_of_the_products_alone():
    size = {"depth": 512, "rows": 128, "columns": 512}
    row = measure(kernels.get("matmul"), size, "bfloat16", target="trn2")
    assert row.mfu == pytest.approx(
        2 * 512 * 128 * 512 / row.time_us / 78.6e6, rel=0.01
    )  # TFLOP/s of trn2


def test_large_sizes_reach_their_roof_or_say_why_not():
    kernel = kernels.get("softmax")
    large = {"rows": 2048, "width": 8192}
    assert measure(kernel, large, "bfloat16", target="trn2").attained >= 0.85
    kernel = kernels.get("cross_entropy")
    row = measure(kernel, {"rows": 128, "classes": 65536}, "bfloat16", target="trn2")
    assert row.attained < 0.85
    assert row.why
    assert row.why in table([row])


@pytest.mark.parametrize("name", ["rope", "layernorm"])
def test_advice_finds_nothing_of_account_at_large_sizes(name):
    result = kernels.get(name).run(kernels.get(name).timed[-1], "bfloat16", target="trn2")
    assert result.roofline().attained >= 0.85
    assert all(advice.gain_share <= 0.05 for advice in result.advice())


def test_slower_rows_are_told(row, tmp_path):
    save_rows([row], tmp_path / "before.json")
    before = load_rows(tmp_path / "before.json")
    assert before == [row]
    save_rows([row, replace(row, kernel="another")], tmp_path / "folder")
    assert load_rows(tmp_path / "folder") == [replace(row, kernel="another"), row]
    assert load_rows(tmp_path / "folder" / "rmsnorm.json") == [row]
    assert changes([row], before, 0.02) == ("no time has changed", False)
    slower = replace(row, time_us=row.time_us * 1.05)
    text, failed = changes([slower], before, 0.02)
    assert failed
    assert "+5.0%, more than 2.0 % slower" in text.replace(" %,", "%,")
    assert changes([slower], before, 0.1)[1] is False
    assert "new" in changes([replace(row, dtype="bfloat16")], before, 0.02)[0]
    (tmp_path / "bad.json").write_text("[1]")
    with pytest.raises(BadFile, match="not a table of the benchmark"):
        load_rows(tmp_path / "bad.json")


def test_times_of_this_machine_are_shown_and_not_kept(row, tmp_path):
    timed = measure(kernels.get("rmsnorm"), SIZE, "float32", walls=True, target="trn2")
    assert timed.simulated_s > 0 and timed.reference_s > 0
    assert timed == row and row.simulated_s == 0
    save_rows([timed], tmp_path / "rows.json")
    assert load_rows(tmp_path / "rows.json")[0].simulated_s == 0
    assert "simulated s" not in table([row])
    shown = replace(timed, simulated_s=1.5, reference_s=0.25)
    assert table([shown]).split("\n")[1].endswith("1.50     6.0 x")


def test_the_command_fails_where_a_kernel_became_slower(tmp_path):
    file = tmp_path / "rows.json"
    call = ["bench", "rmsnorm", "--small", "--dtype", "bfloat16", "--target", "trn2"]
    first = CliRunner().invoke(app, [*call, "--write", str(file)])
    assert first.exit_code == 0, first.output
    assert "rows=512,width=2048" in first.output
    rows = json.loads(file.read_text())
    rows[0]["time_us"] /= 2
    file.write_text(json.dumps(rows))
    second = CliRunner().invoke(app, [*call, "--against", str(file)])
    assert second.exit_code == 1
    assert "slower" in second.output
    assert "did you mean" in CliRunner().invoke(app, ["bench", "rmsnom"]).output
    lost = CliRunner().invoke(app, [*call, "--write", str(tmp_path / "absent" / "rows.json")])
    assert lost.exit_code == 1
    assert "cannot be written: No such file" in " ".join(lost.output.split())
    none = CliRunner().invoke(app, ["bench", "rmsnorm", "--dtype", "int8"])
    assert none.exit_code == 1
    assert "no kernel that was named takes int8" in none.output
    assert "it takes float32, bfloat16" in none.output


def test_a_backend_that_is_not_there_is_named_before_anything_runs():
    outcome = CliRunner().invoke(app, ["bench", "rmsnorm", "--backend", "gpu"])
    text = " ".join(outcome.output.split())
    assert outcome.exit_code == 2
    assert "unknown backend `gpu`: no module of nki_lab.backends defines one of that name" in text
    assert "backends: simulator, neuron, both" in text
