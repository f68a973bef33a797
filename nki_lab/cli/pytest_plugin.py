"""How do kernels run inside pytest?

The plugin is found by pytest wherever nki_lab is installed. Without its options it changes nothing:

    pytest --nki-aliases                 import nki, nki.language and nki.isa from nki_lab where no official package is
    pytest --nki-target trn2             compile every kernel for this chip
    pytest --nki-capacity finding        run kernels that do not fit the chip's memory, and say so
    pytest --nki-strict                  findings are errors
    pytest --nki-allow NKI206            run kernels written for an older NKI: these errors are findings
    pytest --nki-max-trips 1000          stop device loops that make more trips
    pytest --nbval --nki-notebooks       fail cells of notebooks that nbval lets pass although they are wrong
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest

_OPTIONS = ("target", "capacity", "allow", "max_trips")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options, which have the meaning of the environment variables."""
    from nki_lab.settings import VARIABLES

    group = parser.getgroup("nki", "kernels for AWS Trainium (nki_lab)")
    for name in _OPTIONS:
        variable = VARIABLES[name]
        choices = {"choices": variable.choices} if variable.choices else {}
        group.addoption(f"--nki-{name.replace('_', '-')}", help=variable.meaning, **choices)  # type: ignore[arg-type]
    group.addoption(
        "--nki-strict", action="store_true", help=VARIABLES["strict"].meaning.removeprefix("1: ")
    )
    group.addoption(
        "--nki-aliases",
        action="store_true",
        help="make `import nki` import nki_lab where the official package is not installed",
    )
    group.addoption(
        "--nki-notebooks",
        action="store_true",
        help="with --nbval or --nbval-lax: fail cells that nbval lets pass although they are wrong, such as unknown"
        " magics and expected errors that do not come",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Let `conftest.py` files import nki too."""
    _make_aliases(early_config)


def _make_aliases(config: pytest.Config) -> None:
    if config.known_args_namespace.nki_aliases:
        from nki_lab.api.install import install, uninstall

        install()
        config.add_cleanup(uninstall)


def pytest_configure(config: pytest.Config) -> None:
    """Take the options for the whole run."""
    from nki_lab.settings import Settings, names_in, override
    from nki_lab.targets import get_target

    given: dict[str, str | None] = {name: config.getoption(f"nki_{name}") for name in _OPTIONS}
    given["strict"] = "1" if config.getoption("--nki-strict") else None
    stack = ExitStack()
    if given["target"] is not None:
        get_target(given["target"])  # a wrong name is told before any test runs
    if given["allow"] is not None:
        from nki_lab.compiler.findings import check_allowed

        check_allowed(names_in(given["allow"]))
    if any(given.values()):
        stack.enter_context(override(**given))
        Settings.read()  # and a wrong number
    config.add_cleanup(stack.close)
    _check_notebooks(config)
    _make_aliases(
        config
    )  # where the plugin was named in a conftest.py, the hook above was not called


def _check_notebooks(config: pytest.Config) -> None:
    if config.getoption("--nki-notebooks"):
        if not config.pluginmanager.has_plugin("nbval"):
            raise pytest.UsageError("--nki-notebooks needs nbval, which is not installed")
        from nki_lab.cli.notebook_checks import NotebookChecks

        config.pluginmanager.register(NotebookChecks(), "nki_notebooks")
