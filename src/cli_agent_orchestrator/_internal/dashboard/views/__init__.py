"""What the pages show: data becomes parts, and nothing is read or asked here."""
