"""One file for each family of changes; `table.LEVERS` lists them by kind."""
