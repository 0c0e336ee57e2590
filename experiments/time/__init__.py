"""Links by time: shared neighbourhoods against exact trees, and what sharing loses."""
