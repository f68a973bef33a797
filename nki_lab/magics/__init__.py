"""The notebook: magics, and messages to an editor, once `%load_ext nki_lab` has run."""
