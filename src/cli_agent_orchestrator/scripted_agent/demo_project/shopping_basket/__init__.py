"""A basket that knows what it costs."""
