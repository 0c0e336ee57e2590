"""BLISS against full batch on Cora, CiteSeer and PubMed."""
