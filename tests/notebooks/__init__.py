"""Are the notebooks of the workshop fit to be shown, and do they say what they show?"""
