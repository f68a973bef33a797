"""Where did the time go? Tables of a run, whoever measured or modelled it."""
