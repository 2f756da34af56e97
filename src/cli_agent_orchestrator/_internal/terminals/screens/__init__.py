"""What terminals show, for people: screens over time, recordings, and what is asked on them."""
