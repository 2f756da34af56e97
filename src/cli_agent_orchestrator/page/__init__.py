"""The page in the browser: who may see it, what it shows, the stream that keeps it up to date."""
