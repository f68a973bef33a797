"""How fast is nki_lab? Scripts that measure ratios side by side; nothing here is asserted."""
