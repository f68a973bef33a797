"""The notebook: magics, and what an editor is told, once `%load_ext nki_lab` has run."""
