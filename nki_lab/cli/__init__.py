"""What can be done with nki_lab from a terminal?"""
