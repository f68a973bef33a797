"""Is what the JupyterLab extension is built from, and built to, up to date?"""
