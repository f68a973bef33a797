"""What can a notebook do with nki_lab once `%load_ext nki_lab` has run?"""
