"""Does each error have an example, and its text?"""
