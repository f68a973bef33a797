"""Run the command line as `python -m nki_lab`."""

from nki_lab.cli.main import app

app(prog_name="nki-lab")
