"""How much agents have used, from their own records."""
