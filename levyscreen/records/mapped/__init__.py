"""A cohort from somebody's own tables (MEDS, long, wide), read as a mapping file says."""
