"""The public face: `attach()`, `Lake`, `Table` and the merge builder. Thin and documented; what is done is done in `engine/`."""
