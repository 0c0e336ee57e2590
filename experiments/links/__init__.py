"""Links: prediction and recommendation, with and without leaks."""
