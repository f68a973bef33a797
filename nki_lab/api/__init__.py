"""The official import names, each module under its own file.

`nki_lab.api.install` makes `import nki` find them; `nki.language` is `nki_lab.language` itself.
"""
