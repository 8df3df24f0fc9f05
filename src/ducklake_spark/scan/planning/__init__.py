"""What a scan reads, as a value: groups of files, and whether they are still as the catalog says."""
