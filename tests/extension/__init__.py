"""Tests that the sources and the built files of the JupyterLab extension are up to date."""
