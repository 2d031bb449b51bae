"""Rivals of the private bootstrap: other ways to private posterior draws, and the non-private targets."""
