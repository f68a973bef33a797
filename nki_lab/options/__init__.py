"""What do the notebook's magics and the command line share?

One table of options, one way to read them, and the texts both print.
"""
