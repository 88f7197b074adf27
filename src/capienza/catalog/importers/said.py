"""What more than one importer says of its source."""

from __future__ import annotations

from capienza.errors import template

IN_DOLLARS = template(
    "import.in-dollars", "the file names no currency: amounts are read as USD, which {source} documents"
)
NO_GPU = template("import.no-gpu", "it has no GPU")
NOT_STOCK = template(
    "import.not-stock", "a row is a type of instance in a place, not stock: whether one is free is not known"
)
STOCK_IS_A_WISH = template(
    "import.stock-is-a-wish", "what is free now is kept as stock; it is a wish and proves nothing at order time"
)
PRICE_UNKNOWN = template("import.price-unknown", "{column} is {found}: not known, and not free of charge")
GPUS_CONTRADICT = template(
    "import.gpus-contradict", "{column} says {found} GPUs and {other} says {stated}: nothing tells which is right"
)
MEMORY_CONTRADICTS = template(
    "import.memory-contradicts", "{column} is {found}, and {other} is {stated}: the memory is read as not stated"
)
MEMORY_IMPLAUSIBLE = template(
    "import.memory-implausible", "{column} is {found}, which is no memory of one GPU as {unit}: read as not stated"
)
