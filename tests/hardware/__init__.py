"""Devices and the official tools, as stand-ins show them; `contract.yaml` says what is known of the real ones."""
