"""What each test runner prints, and how its counts are read: one module for each family."""
