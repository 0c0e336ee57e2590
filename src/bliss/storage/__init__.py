"""Files: whole-file writes, digests, records, memory maps and shared memory."""
