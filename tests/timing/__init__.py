"""Does the timing model behave as the machine it describes?"""
