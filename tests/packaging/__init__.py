"""Does an installation work where only pip has been at work?"""
