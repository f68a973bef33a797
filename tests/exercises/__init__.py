"""Does the workshop accept right answers, and only those, with reasons that teach?"""
