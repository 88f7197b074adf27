"""Why a figure of a case is not compared, in words."""

from __future__ import annotations

from capienza.errors import template

NO_ARCHITECTURE = template("validate.no-architecture", "the case does not state the model's architecture")
NOT_UNDERSTOOD = template("validate.not-understood", "not predicted: {why}")
ODD = template("validate.odd", "the case itself is marked as odd: {why}")
INFERRED = template("validate.inferred", "size inferred: {basis}")
OTHER_HEAD = template("validate.other-head", "the model's name says that its trunk has another head")
MIXED_BITS = template("validate.mixed-bits", "the checkpoint keeps some layers in 16 bit and does not say which")
FILE_FORMAT = template("validate.file-format", "the bytes are those of a GGUF file that is not at hand")
NO_GROUP = template("validate.no-group", "the group size of the 4-bit weights is not stated")
PARTLY_ON_HOST = template("validate.partly-on-host", "a part of the weights stays in host memory")
NO_VISION_SIZE = template("validate.no-vision-size", "the size of the vision side is not stated (arch.extra_params_m)")
NOT_STATED = template("validate.not-stated", "not stated: {names}")
TAKEN = template(
    "validate.taken", "not stated: {names}; the catalogue's total of the card and the engine's defaults stand in"
)
NO_POOL = template("validate.no-pool", "no pool is logged")
NO_FIGURE = template("validate.no-figure", "{engine} has no such figure in its prediction")
NOTHING_PREDICTED = template("validate.nothing-predicted", "none of its figures is predicted: {names}")
NOT_DEVICE_MEMORY = template("validate.not-device-memory", "it did not end for want of device memory: {what}")
NO_CAPACITY = template("validate.no-capacity", "no capacity is stated, and no catalogued card is named")
