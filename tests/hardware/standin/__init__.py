"""What the stand-ins of the official tools do: it runs in their processes, never in that of a test."""
