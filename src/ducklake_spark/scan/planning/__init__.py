"""What a scan reads, as a value: groups of files, where they come from, and whether they are still as the catalog says."""
