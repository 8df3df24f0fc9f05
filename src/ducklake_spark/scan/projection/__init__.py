"""How a column is made from a file of some age: types, defaults, casts, and what its footer says."""
