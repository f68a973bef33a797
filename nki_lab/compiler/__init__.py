"""How does a Python function become a program?"""
