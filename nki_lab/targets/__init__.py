"""What is the machine? Numbers only, each with the page it came from."""
