"""Changes the pure modules in small ways and sees whether their tests notice (`make mutants`)."""
