"""Tests that a line of options is read as it was meant, and that every wrong one names what would be right."""

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.errors import RuleBroken, UnknownOption
from nki_lab.session.questions import choice_named, options_of
from nki_lab.session.reading import option_help, parse_line
from nki_lab.source import Span
from nki_lab.views.registry import view_names

MAGIC = "%%nki"

#: Per option: a line, and the value it stands for.
RIGHT = {
    "run": ("--run 'add(a, b)'", "add(a, b)"),
    "check": ("--check=a+b", "a+b"),
    "target": ("--target TRN2", "trn2"),
    "show": ("--show timeline,ir", ("ir", "timeline")),
    "name": ("--name größe", "größe"),
    "quiet": ("--quiet", True),
    "expect": ("--expect NKI203", RuleBroken),
    "analyse": ("--analyse stalls,path", ("stalls", "path")),
    "what_if": ("--what-if free-loads,line=12", ("free-loads", "line=12")),
    "rtol": ("--rtol 2e-2", 0.02),
    "atol": ("--atol=0", 0.0),
    "bench": ("--bench", True),
    "compare": ("--compare before_result", "before_result"),
    "save": ("--save 'run.json, a b.html'", (Path("run.json"), Path("a b.html"))),
    "json": ("--json", True),
    "lnc": ("--lnc 2", 2),
    "timeout": ("--timeout 1e-1", 0.1),
    "capacity": ("--capacity finding", "finding"),
    "skip_passes": ("--skip schedule,remove_dead", ("schedule", "remove_dead")),
    "strict": ("--strict", True),
    "allow": ("--allow NKI206", ("NKI206",)),
    "max_trips": ("--max-trips 1000", 1000),
    "debug": ("--debug", True),
    "migrate": ("--migrate", True),
    "accept": ("--accept division", "division"),
    "torch": ("--torch lab::rmsnorm", "lab::rmsnorm"),
    "jax": ("--jax=lab::rmsnorm", "lab::rmsnorm"),
    "nki": ("--nki 0.6.0", "0.6"),
    "dialect": ("--dialect beta1", "beta1"),
    "backend": ("--backend simulator", "simulator"),
    "core": ("--core 3", 3),
    "warmup": ("--warmup 0", 0),
    "iters": ("--iters 7", 7),
}

#: (option, line, words of the error, words of its help)
WRONG = [
    ("run", "--run 'add(a'", "was never closed", "one Python expression"),
    ("run", "--run ''", "the expression is empty", "one Python expression"),
    ("run", "--run 'x = 1'", "--run: invalid syntax", "one Python expression"),
    ("run", "--run 'a\x00b'", "null bytes", "one Python expression"),
    ("check", "--check", "--check needs a value: --check EXPR", "put quotes around"),
    ("check", "--check 'a +'", "invalid syntax", "one Python expression"),
    ("target", "--target trn0", "there is no target `trn0`", "`trn1`"),
    ("target", "--target ''", "there is no target ``", ""),
    ("show", "--show irr", "unknown view `irr`", "did you mean `ir`?"),
    ("show", "--show ir,,memory", "the name of a view is missing", ""),
    ("show", "--show none,ir", "`none` stands alone", ""),
    ("name", "--name 2nd", "`2nd` cannot name a variable", "result"),
    ("name", "--name class", "`class` cannot name a variable", "result"),
    ("quiet", "--quiet=yes", "--quiet is a switch and takes no value", "write --quiet alone"),
    ("expect", "--expect NKI2O3", "nki_lab has no error `NKI2O3`", "`NKI203`"),
    ("analyse", "--analyse paths", "`paths` is not one of path, stalls", "did you mean `path`?"),
    ("analyse", "--analyse path,", "`` is not one of path, stalls", ""),
    ("what_if", "--what-if free-load", "is not a what-if question", "`free-loads`"),
    ("what_if", "--what-if line=", "`line=` is not a what-if question", ""),
    ("rtol", "--rtol -1", "`-1` is not a number from 0 on", "2e-2"),
    ("rtol", "--rtol inf", "`inf` is not a number from 0 on", "2e-2"),
    ("atol", "--atol small", "`small` is not a number from 0 on", "2e-2"),
    ("bench", "--bench=3", "--bench is a switch", "write --bench alone"),
    ("compare", "--compare 'a +'", "invalid syntax", "one Python expression"),
    ("save", "--save run.json,page", "`page` ends with none of .html, .nkic", ".json the profile"),
    ("save", "--save run.json,,page.html", "lacks the name of a file", "for example run.json"),
    ("json", "--json=1", "--json is a switch", "write --json alone"),
    ("lnc", "--lnc two", "`two` is not one of 1, 2", ""),
    ("timeout", "--timeout soon", "`soon` is not a positive number of seconds", "2.5"),
    ("timeout", "--timeout 0", "`0` is not a positive number", "2.5"),
    ("timeout", "--timeout -3", "`-3` is not a positive number", "2.5"),
    ("timeout", "--timeout nan", "`nan` is not a positive number", "2.5"),
    ("timeout", "--timeout inf", "`inf` is not a positive number", "2.5"),
    ("capacity", "--capacity findings", "error, finding", "did you mean `finding`?"),
    ("skip_passes", "--skip shedule", "there is no such pass", "did you mean `schedule`?"),
    (
        "skip_passes",
        "--skip insert_waits",
        "no program can run without it",
        "balance_engines, schedule",
    ),
    ("skip_passes", "--skip schedule,", "there is no such pass", "leave out some of"),
    ("allow", "--allow NKI203", "`NKI203` cannot be allowed", "NKI206"),
    ("max_trips", "--max-trips 0", "`0` is not a whole number above 0", "100"),
    ("strict", "--strict=1", "--strict is a switch", "write --strict alone"),
    (
        "backend",
        "--backend simulatr",
        "unknown backend `simulatr`",
        "did you mean `simulator`?",
    ),
    ("core", "--core x", "`x` is not a whole number from 0 on", "write for example 7"),
    ("warmup", "--warmup 1.5", "`1.5` is not a whole number from 0 on", "write for example 7"),
    ("iters", "--iters 0", "`0` is not a whole number above 0", "100"),
    ("nki", "--nki=", "the value is empty; it takes 0.1, 0.2", "leave it out"),
    ("nki", "--nki 0.8", "`0.8` is not one of 0.1, 0.2", ""),
    ("accept", "--accept reciprocal", "`reciprocal` is not one of division", ""),
    ("torch", "--torch rmsnorm", "`rmsnorm` does not name an operator", "lab::rmsnorm"),
    ("jax", "--jax lab::a-b", "`lab::a-b` does not name an operator", "lab::rmsnorm"),
    ("migrate", "--migrate=0.6", "--migrate is a switch", "write --migrate alone"),
    ("dialect", "--dialect beta2", "`beta2` is not one of nki, beta1", "did you mean `beta1`?"),
    ("debug", "--debug=1", "--debug is a switch", "write --debug alone"),
]


def value(line: str, name: str):
    found = getattr(parse_line(MAGIC, line), name)
    return getattr(found, "text", found)


@pytest.mark.parametrize("name", [option.name for option in options_of(MAGIC)])
def test_every_option_is_read(name: str):
    line, expected = RIGHT[name]
    assert value(line, name) == expected


@pytest.mark.parametrize("name", [option.name for option in options_of(MAGIC)])
def test_every_option_has_a_default(name: str):
    switches = {option.name for option in options_of(MAGIC) if option.is_switch}
    assert value("", name) is (False if name in switches else None)


@pytest.mark.parametrize("name", [option.name for option in options_of(MAGIC)])
def test_every_option_has_a_wrong_value(name: str):
    assert name in {wrong[0] for wrong in WRONG}


@pytest.mark.parametrize(("name", "line", "message", "help"), WRONG)
def test_a_wrong_value_names_what_is_allowed(name: str, line: str, message: str, help: str):
    with pytest.raises(UnknownOption) as caught:
        parse_line(MAGIC, line)
    assert choice_named(name).flag in caught.value.message
    assert message in caught.value.message
    assert help in caught.value.help


@pytest.mark.parametrize(
    ("line", "message", "help"),
    [
        ("--shwo ir", "%%nki has no option `--shwo`", "did you mean `--show`"),
        ("--targt=trn2", "%%nki has no option `--targt`", "`--target`"),
        ("-run x", "%%nki has no option `-run`", "did you mean `--run`?"),
        ("--ru x", "%%nki has no option `--ru`", "did you mean `--run`"),
        ("target trn2", "%%nki: unexpected `target`", "`--target`"),
        ("--run add(a, b)", "%%nki: unexpected `b)`", "put quotes around a value with spaces"),
        ("--run 'add(a", "%%nki: no closing quotation", "quote a value like this"),
        ("--target trn1 --target trn2", "--target is given 2 times", "give it once"),
        ("--quiet --quiet", "--quiet is given 2 times", "give it once"),
    ],
)
def test_what_is_no_option_gets_close_matches(line: str, message: str, help: str):
    with pytest.raises(UnknownOption) as caught:
        parse_line(MAGIC, line)
    assert message in caught.value.message
    assert help in caught.value.help


def test_an_unknown_option_lists_the_known_ones():
    with pytest.raises(UnknownOption) as caught:
        parse_line(MAGIC, "--nothing")
    known = ", ".join(option.flag for option in options_of(MAGIC))
    assert caught.value.notes == (f"options: {known}",)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--check -a", "-a"),
        ("--check '-a + b'", "-a + b"),
        ("--check=-a", "-a"),
        ('--check="-(a + b)"', "-(a + b)"),
        ("--check -1", "-1"),
        ("--check='--a'", "--a"),
        ("--check \"d['α β']\"", "d['α β']"),
        ("--check 'größe * 2'", "größe * 2"),
        (r"--check a\ +\ b", "a + b"),
        ("--check '{a: b}[a]'", "{a: b}[a]"),
    ],
)
def test_quoting_is_that_of_a_shell(line: str, expected: str):
    assert value(line, "check") == expected


@given(st.sampled_from(["-x", "'a b'", '"é"', "a", "-", "[1, 2]", "d['k']"]))
def test_what_shlex_quotes_arrives_unchanged(text: str):
    try:
        compile(text, "", "eval")
    except SyntaxError:
        return
    assert value(f"--check {shlex.quote(text)}", "check") == text


def test_an_option_is_not_taken_for_the_value_before_it():
    with pytest.raises(UnknownOption, match="--check needs a value"):
        parse_line(MAGIC, "--check --run 'add(a)'")


def test_views_come_in_the_order_of_the_tabs():
    assert value(f"--show {','.join(reversed(view_names()))}", "show") == view_names()
    assert value("--show none", "show") == ()


def test_the_help_names_every_option_with_its_values():
    text = option_help(MAGIC)
    for option in options_of(MAGIC):
        assert option.flag in text
    assert "trn1, inf2, gen2, trn2" in text


def test_an_error_has_the_place_it_was_given():
    def locate(word: str, column: int, width: int):
        return (Span("cell", 1, column, 1, column + width, word),)

    with pytest.raises(UnknownOption) as caught:
        parse_line(MAGIC, "--show ir,memry", locate)
    span = caught.value.span
    assert (span.function, span.column, span.end_column) == ("ir,memry", 3, 8)
