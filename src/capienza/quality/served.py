"""What a server says of itself: the model it serves, its own version, its chat template.

It is read once before the first question, and written into the first line of the outputs. What a server does not say
is None and stands for nothing. Sources: /props of llama.cpp (model_path, model_alias, chat_template, build_info), the
list of /v1/models (id, and root at vLLM; meta.size at llama.cpp), /version of vLLM.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import msgspec

from capienza.errors import Message, shortened, template
from capienza.quality.plan import Answering, Arm, QualityPlan

MOST_BYTES = 4 * 2**20
MOST_NAMES = 8
_SECONDS = 10.0

OTHER_MODEL = template(
    "quality.serves-another-model",
    "the server says that it serves {found}; the plan's {arm} is {stated}",
    "check that the right model answers: a name alone may differ, a model may not",
)
OTHER_TEMPLATE = template(
    "quality.serves-another-template",
    "the server's chat template has the digest {found}; the plan froze {frozen}",
    "serve the model with the template of the plan, or freeze a new plan",
)
OTHER_VERSION = template(
    "quality.serves-another-version",
    "the server says that it is version {found}; the plan's {arm} runs {stated}",
    "run the version that the plan names, or freeze a new plan",
)


class Served(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a server said. `models` are the names by which it knows what it serves, `weights_bytes` their size."""

    models: tuple[str, ...] = ()
    version: str | None = None
    chat_template_sha256: str | None = None
    weights_bytes: int | None = None


def ask_served(client: Any, root: str, address: str) -> Served:
    """What a server says of itself, at its root and at the address of its models; silence is no error."""
    props, version = _got(client, f"{root}/props"), _got(client, f"{root}/version")
    listed = _got(client, f"{address}/models").get("data")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    stated = [props.get("model_alias"), props.get("model_path")]
    stated += [entry.get(key) for entry in entries[:MOST_NAMES] for key in ("id", "root")]
    names = dict.fromkeys(_named(value) for value in stated if isinstance(value, str) and value.strip())
    chat = props.get("chat_template")
    sizes = [entry["meta"].get("size") for entry in entries if isinstance(entry.get("meta"), dict)]
    return Served(
        models=tuple(names)[:MOST_NAMES],
        version=_text(version.get("version")) or _text(props.get("build_info")),
        chat_template_sha256=hashlib.sha256(chat.encode()).hexdigest() if isinstance(chat, str) and chat else None,
        weights_bytes=sizes[0] if len(sizes) == 1 and isinstance(sizes[0], int) else None,
    )


def served_findings(plan: QualityPlan, arm: Arm, served: Served | None) -> tuple[Message, ...]:
    """What the server says that is not as the plan has it."""
    return () if served is None else tuple(_differences(plan, arm, served))


def arm_of(plan: QualityPlan, arm: Arm) -> Answering:
    """What the plan says of an arm."""
    answering: Answering = getattr(plan, "reference" if arm == "reference_again" else arm)
    return answering


def is_another(before: Served, now: Served) -> bool:
    """Do both say what they serve, and not the same? A name that one of them leaves out says nothing."""
    pairs = (
        (set(before.models), set(now.models)),
        (before.chat_template_sha256, now.chat_template_sha256),
        (before.weights_bytes, now.weights_bytes),
    )
    return any(one and other and one != other for one, other in pairs)


def described(served: Served) -> str:
    """What a server said, in one line."""
    parts = [", ".join(served.models)]
    parts += [f"{served.weights_bytes} B"] if served.weights_bytes else []
    parts += [f"chat template {served.chat_template_sha256[:12]}"] if served.chat_template_sha256 else []
    return "; ".join(part for part in parts if part)


def _differences(plan: QualityPlan, arm: Arm, served: Served) -> Iterator[Message]:
    stated = arm_of(plan, arm)
    if stated.model and served.models and not any(_is_named(stated.model, name) for name in served.models):
        yield OTHER_MODEL(found=", ".join(served.models), arm=arm, stated=stated.model)
    frozen, found = plan.chat_template_sha256, served.chat_template_sha256
    if frozen and found and frozen != found:
        yield OTHER_TEMPLATE(found=found[:12], frozen=frozen[:12])
    version = stated.engine_version
    if version and served.version and _is_version(served.version) and not _is_of(served.version, version):
        yield OTHER_VERSION(found=served.version, arm=arm, stated=version)


def _is_named(stated: str, name: str) -> bool:
    """Is it the same name, or the same file or repository by its last part?"""
    one, other = stated.casefold(), name.casefold()
    return one == other or one.rpartition("/")[2] == other.rpartition("/")[2]


def _is_version(text: str) -> bool:
    """Does it name a version? A llama.cpp that was built without its history says b0-unknown."""
    return any(character.isdigit() and character != "0" for character in text)


def _is_of(found: str, stated: str) -> bool:
    """b8700-1a2b3c is of b8700, and 0.11.2+cu129 of 0.11.2."""
    rest = found.removeprefix("v").removeprefix(stated.removeprefix("v"))
    return rest != found.removeprefix("v") and not rest[:1].isdigit() and not rest.startswith(".")


def _named(value: str) -> str:
    """A name without the folders of the server's own disk, which are nobody's business."""
    is_path = value.startswith(("/", "\\", ".", "~")) or "\\" in value or value.casefold().endswith(".gguf")
    text = PureWindowsPath(PurePosixPath(value).name).name if is_path else value
    return shortened(text, 200)


def _text(value: object) -> str | None:
    return shortened(value, 60) if isinstance(value, str) and value.strip() else None


def _got(client: Any, address: str) -> dict[str, Any]:
    """One JSON object; an empty one where there is none: servers differ in what they say of themselves."""
    data = bytearray()
    try:
        with client.stream("GET", address, timeout=_SECONDS) as response:
            if response.headers.get("Content-Encoding", "identity") != "identity":
                return {}
            for chunk in response.iter_raw():
                data += chunk
                if len(data) > MOST_BYTES:
                    return {}
            reply = msgspec.json.decode(bytes(data)) if response.status_code == 200 else {}
    except Exception:
        return {}
    return reply if isinstance(reply, dict) else {}
