"""Characters that text from others may not have, as parts of a pattern: `f"[{CONTROLS}]"`."""

CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
"""All but LF and TAB: an escape sequence could rewrite a screen, end a paste or press keys."""
BREAKS = r"\t\n\u2028\u2029"
"""What cannot stand within a line."""
HALVES = r"\ud800-\udfff"
"""Halves of a character, which cannot be written at all."""
