"""Runs kernels inside pytest.

The plugin is found by pytest wherever nki_lab is installed. Without its options it only lets nbval pass over the type
of our live views:

    pytest --nki-aliases                 import nki, nki.language and nki.isa from nki_lab where no official package is
    pytest --nki-target trn2             compile every kernel for this chip
    pytest --nki-capacity finding        run kernels that do not fit the chip's memory, and say so
    pytest --nki-strict                  findings are errors
    pytest --nki-version 0.5             run kernels that are written for this version of NKI
    pytest --nki-allow NKI206            these errors, of kernels for an older NKI, are findings
    pytest --nki-max-trips 1000          stop device loops that make more trips
    pytest --nbval --nki-notebooks       fail cells of notebooks that nbval lets pass although they are wrong
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nki_lab.choices import Choice


def _choices() -> list[Choice]:
    from nki_lab.choices import CHOICES

    return [choice for choice in CHOICES if "pytest" in choice.commands]


def _flag(flag: str) -> str:
    """Return the option of pytest for one of `nki-lab`."""
    return "--nki-version" if flag == "--nki" else flag.replace("--", "--nki-", 1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options, which have the meaning of the environment variables."""
    group = parser.getgroup("nki", "kernels for AWS Trainium (nki_lab)")
    for choice in _choices():
        dest, flag = f"nki_{choice.name}", _flag(choice.flag)
        if choice.is_switch:
            group.addoption(flag, dest=dest, action="store_true", help=choice.help_text)
        else:
            group.addoption(flag, dest=dest, metavar=choice.metavar, help=choice.help_text)
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
    given = {choice: config.getoption(f"nki_{choice.name}") for choice in _choices()}
    stack = ExitStack()
    if any(given.values()):
        from nki_lab.choices import inside
        from nki_lab.errors import UnknownOption
        from nki_lab.session.reading import read_value

        try:  # a wrong value ends the run before its first test
            values = {
                choice.name: read_value(choice, value) if isinstance(value, str) else value or None
                for choice, value in given.items()
            }
        except UnknownOption as error:
            flag, colon, rest = error.message.partition(":")
            text = f"{_flag(flag)}{colon}{rest}"
            raise pytest.UsageError(f"{text}; {error.help}".rstrip("; ")) from None
        stack.enter_context(inside(**values))
    config.add_cleanup(stack.close)
    _check_notebooks(config)
    _make_aliases(
        config
    )  # where the plugin was named in a conftest.py, the hook above was not called


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Let nbval pass over our type of live views, as it does over that of widgets: programs that run cells get none."""
    if skipped := getattr(collector, "skip_compare", None):
        from nki_lab.widgets import LIVE_TYPE

        collector.skip_compare = (*skipped, LIVE_TYPE)  # type: ignore[attr-defined]


def _check_notebooks(config: pytest.Config) -> None:
    if config.getoption("--nki-notebooks"):
        if not config.pluginmanager.has_plugin("nbval"):
            raise pytest.UsageError(
                "--nki-notebooks needs nbval, which is not installed: pip install nbval"
            )
        from nki_lab.cli.notebook_checks import NotebookChecks

        config.pluginmanager.register(NotebookChecks(), "nki_notebooks")
