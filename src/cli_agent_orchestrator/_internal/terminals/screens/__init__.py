"""What terminals show, for people who look on: screens over time, and what is asked on them."""
