"""Does a notebook work in a real JupyterLab, in a real browser?"""
