"""The workshop's exercises: asks them, judges answers, and remembers what is solved.

    from nki_lab.exercises import check
    check("01.2", add_rows)

`check` takes a kernel (or what else an exercise asks for), `answer` the answer to a question about a profile, `hint`
helps in three steps, `statement` says again what is asked, and `progress` shows what has been solved.
"""

from nki_lab.exercises.ask import answer, check, hint, statement
from nki_lab.exercises.progress_file import progress

__all__ = ["answer", "check", "hint", "progress", "statement"]
