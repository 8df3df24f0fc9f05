"""The public face: `attach()`, `Lake`, `Table` and the merge builder. What they do is in `engine/`."""
