"""Under which names does the official package offer what nki_lab has? One thin module per official one.

`nki_lab.api.install` makes `import nki` find them; `nki.language` is `nki_lab.language` itself.
"""
