"""BLISS against full batch on PPI."""
