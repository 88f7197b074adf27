"""GIT: a BERT-like decoder that reads a CLIP encoder's patches before the text."""

from __future__ import annotations

from capienza.architecture.assembly import assemble
from capienza.architecture.bert_parts import Bert, block, embedding_norm, embeddings
from capienza.architecture.decoder_notes import PREFIX_PLACES
from capienza.architecture.frame import read_frame
from capienza.architecture.heads import Heads, share_out
from capienza.architecture.model import Architecture
from capienza.architecture.pieces import Piece, linear, norm, plain_mlp
from capienza.architecture.reading import MAX_EXPERTS, MAX_LAYERS, Config
from capienza.errors import phrase

TOWER = "git.image_encoder.vision_model"


def build(config: Config) -> Architecture:
    """The whole model: equal layers with full attention, the image encoder and the projection between them."""
    frame = read_frame(config, hidden_size=768, num_hidden_layers=6, vocab_size=30522, max_position_embeddings=1024)
    hidden = frame.hidden_size
    count = config.dimension("num_attention_heads", 12)
    bert = Bert(
        frame=frame,
        heads=Heads(count, count, share_out(config, hidden, count)),
        intermediate=config.dimension("intermediate_size", 3072),
        crosses=False,
    )
    vision = config.section("vision_config") or Config({}, config.file, prefix="vision_config.", parent=config)
    width = vision.integer("hidden_size", 768)
    frames = config.optional("num_image_with_embedding", maximum=MAX_EXPERTS, minimum=0) or 0
    before: list[Piece] = [
        *embeddings(config, bert, "git", types=None),
        *embedding_norm(bert, "git"),
        *_tower(config, vision, width),
        *linear("git.visual_projection.visual_projection.0", hidden, width, "vision", bias=True),
        *norm("git.visual_projection.visual_projection.1", hidden, bias=True),
        *((f"git.img_temporal_embedding.{index}", (1, 1, width), "vision") for index in range(frames)),
    ]
    return assemble(
        config,
        frame,
        [block(config, bert)] * frame.num_layers,
        before=before,
        after=[],
        head=linear("output", frame.vocab_size, hidden, "head", bias=True),
        blocks_at="git.encoder.layer",
    )


def _tower(config: Config, vision: Config, width: int) -> list[Piece]:
    """CLIP's image encoder, and the note of how many places an image takes."""
    patch = vision.integer("patch_size", 16)
    places = (vision.integer("image_size", 224) // patch) ** 2 + 1
    config.notes.append(PREFIX_PLACES(source=phrase("an image"), count=places))
    wide = vision.integer("intermediate_size", 3072)
    name = f"{TOWER}.embeddings"
    pieces: list[Piece] = [
        (f"{name}.class_embedding", (width,), "vision"),
        (f"{name}.patch_embedding.weight", (width, vision.integer("num_channels", 3), patch, patch), "vision"),
        (f"{name}.position_embedding.weight", (places, width), "position"),
        *norm(f"{TOWER}.pre_layrnorm", width, bias=True),
    ]
    for index in range(vision.integer("num_hidden_layers", 12, maximum=MAX_LAYERS)):
        layer = f"{TOWER}.encoder.layers.{index}"
        for part in ("k_proj", "v_proj", "q_proj", "out_proj"):
            pieces += linear(f"{layer}.self_attn.{part}", width, width, "vision", bias=True)
        pieces += norm(f"{layer}.layer_norm1", width, bias=True)
        pieces += [
            (piece, shape, "vision")
            for piece, shape, _ in plain_mlp(width, wide, up=f"{layer}.mlp.fc1", down=f"{layer}.mlp.fc2")
        ]
        pieces += norm(f"{layer}.layer_norm2", width, bias=True)
    return [*pieces, *norm(f"{TOWER}.post_layernorm", width, bias=True)]
