"""HTML from values of ours, for the page in the browser and for reports."""
