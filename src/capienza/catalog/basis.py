"""Where a capacity comes from, in words: one message for each way to arrive at a figure."""

from __future__ import annotations

from capienza.errors import template

NOMINAL = template("catalog.basis-nominal", "nominal {gigabytes} GB x 2^30 bytes: no driver total was collected")
NO_TOTAL = template("catalog.basis-no-total", "no driver total was collected")
ECC_UNDONE = template("catalog.basis-ecc-undone", "ECC off: {mib} MiB reported with ECC on x 16/15, rounded up")
ECC_TAKEN = template("catalog.basis-ecc-taken", "ECC on: {mib} MiB reported with ECC off x 15/16")
LARGEST = template("catalog.basis-largest", "largest reported total, {mib} MiB")
SMALLEST = template("catalog.basis-smallest", "smallest reported total, {mib} MiB")
LOSSLESS = template(
    "catalog.basis-lossless", "smallest reported total, {mib} MiB; no loss to ECC was seen on this kind of memory"
)
NO_CUDA = template("catalog.basis-no-cuda-total", "no CUDA total was collected")
CUDA_LESS_ECC = template(
    "catalog.basis-cuda-less-ecc", "{mib} MiB seen with ECC off, less the {taken} MiB that ECC takes"
)
CUDA_SEEN = template("catalog.basis-cuda-seen", "smallest CUDA total seen, {mib} MiB")

NOT_A_NAME = template("catalog.basis-no-name", "the GPU name is not known, so no capacity is")
SHARED = template("catalog.basis-shared", "the seller divides the GPU and does not say how much of it this is")
CONTRADICTED = template("catalog.basis-contradicted", "the seller's memory contradicts the GPU name")
BY_DRIVER = template("catalog.basis-driver", "{mib} MiB reported by the driver, as the offer states")
OF_DEVICE = template("catalog.basis-of-device", "{device}: {basis}")
WHOLE = template("catalog.basis-whole", "whole GPU: {basis}")
INSTANCE_MOST = template("catalog.basis-instance-most", "instance {profile}: at most {mib} MiB")
INSTANCE_LEAST = template("catalog.basis-instance-least", "instance {profile}: at least {mib} MiB")
INSTANCE_NAME = template(
    "catalog.basis-instance-name", "instance {profile}: its name x 2^30 bytes, no reading was collected"
)
INSTANCE_UNKNOWN = template(
    "catalog.basis-instance-unknown", "instance {profile}: no reading of a real card was collected"
)
