"""Every kernel again in plain NumPy: slow, short, and what the compiled ones are tested against."""
