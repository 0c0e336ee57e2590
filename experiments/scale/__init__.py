"""Scale: graphs larger than memory."""
