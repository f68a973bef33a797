"""Every choice of a user, declared once, and what is chosen.

The options of `%%nki` and `%nki`, the flags of `nki-lab`, the keywords of `nki_lab.run` and its relatives, the options
of the pytest plugin, the environment variables, completion and the tables of the documentation are derived from the
blocks in `declared`.

`Choices` holds a value for each of them. It is passed from the call to the compiler and on to the simulator. It does
not change, and it pickles, so that threads and other processes run under the choices they are given.
"""

# A new choice is imported without being named here.
# ruff: noqa: F403
from nki_lab.choices.choice import *
from nki_lab.choices.chosen import *
from nki_lab.choices.declared import *
