"""Nemotron-H and Nemotron 3: every layer is one part only, a Mamba-2 mixer, attention, an MLP or experts."""

from __future__ import annotations

from capienza.architecture.assembly import Block, assemble
from capienza.architecture.frame import Frame
from capienza.architecture.heads import OLDER_TYPES, read_heads
from capienza.architecture.mixers import Mamba2
from capienza.architecture.model import Architecture, Mlp
from capienza.architecture.pieces import Piece, attention_pieces, linear, norm, plain_mlp, read_experts
from capienza.architecture.reading import MAX_LAYERS, Config, shown
from capienza.errors import template

PATTERN = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}

UNKNOWN_LAYER = template(
    "architecture.nemotron-layer",
    "the kind {found} is not known; {accepted} are. Nothing is guessed: another kind may keep more than these, or less",
    "The weights can still be counted from the headers of the model's own files; the cache cannot.",
)


def build(config: Config) -> Architecture:
    """Layers as `layers_block_type` or the older `hybrid_override_pattern` say."""
    config = config.with_aliases(
        conv_kernel="mamba_d_conv",
        head_dim="attention_head_dim",
        layers_block_type="layer_types",
        n_groups="mamba_n_groups",
        n_routed_experts="num_local_experts",
        use_conv_bias="mamba_conv_bias",
    )
    types = _types(config)
    frame = Frame(
        hidden_size=config.dimension("hidden_size", 4096),
        num_layers=len(types),
        vocab_size=config.dimension("vocab_size", 131072),
        max_positions=config.integer("max_position_embeddings", 4096),
        tied_head=False,  # the class ties nothing, whatever the config says
    )
    before = norm("norm", frame.hidden_size)
    makers = {"linear_attention": _mamba, "full_attention": _attention, "mlp": _dense, "moe": _experts}
    made = {kind: makers[kind](config, frame.hidden_size, before) for kind in set(types)}
    return assemble(
        config,
        frame,
        [made[kind] for kind in types],
        before=[("model.embeddings.weight", (frame.vocab_size, frame.hidden_size), "embedding")],
        after=norm("model.norm_f", frame.hidden_size),
    )


def _types(config: Config) -> list[str]:
    """The kind of every layer; `num_hidden_layers`, where it is written, must agree."""
    stated = config.texts("layers_block_type")
    key = "hybrid_override_pattern" if stated is None else "layers_block_type"
    if stated is None:
        stated = tuple(config.text(key))
    names = (
        PATTERN if key == "hybrid_override_pattern" else {**OLDER_TYPES, **{name: name for name in PATTERN.values()}}
    )
    for index, kind in enumerate(stated):
        if kind not in names:
            config.refuse(f"{key}[{index}]", UNKNOWN_LAYER(found=shown(kind), accepted=", ".join(names)))
    if not 0 < len(stated) <= MAX_LAYERS:
        config.broken_rule(key, stated, f"1 <= len({key}) <= {MAX_LAYERS}")
    layers = config.optional("num_hidden_layers") or len(stated)
    if layers != len(stated):
        config.broken_rule("num_hidden_layers", layers, f"num_hidden_layers == len({key}) == {len(stated)}")
    return [names[kind] for kind in stated]


def _mamba(config: Config, hidden: int, before: list[Piece]) -> Block:
    bias = config.flag("use_bias", default=False)
    mixer = Mamba2(
        hidden=hidden,
        heads=config.integer("mamba_num_heads", 128),
        head_dim=config.integer("mamba_head_dim", 64),
        groups=config.integer("n_groups", 8),
        state=config.integer("ssm_state_size", 128),
        kernel=config.integer("conv_kernel", 4),
        bias=bias,
        convolution_bias=config.flag("use_conv_bias", default=True),
    ).mixer("mixer")
    return Block(state=mixer.state, pieces=[*before, *mixer.pieces])


def _attention(config: Config, hidden: int, before: list[Piece]) -> Block:
    heads = read_heads(config, hidden, num_attention_heads=32, num_key_value_heads=8, head_dim=128)
    return Block(attention=heads.attention(), pieces=[*before, *attention_pieces(heads, hidden, name="mixer")])


def _dense(config: Config, hidden: int, before: list[Piece]) -> Block:
    width = config.dimension("intermediate_size", 21504)
    pieces = _plain(config, hidden, width, "mixer")
    return Block(mlp=Mlp(kind="dense", intermediate_size=width), pieces=[*before, *pieces])


def _experts(config: Config, hidden: int, before: list[Piece]) -> Block:
    """Experts without a gate, which work in a narrower space when there is a latent size, and one shared MLP."""
    experts, chosen = read_experts(config, "n_routed_experts", 8, per_token=2)
    width = config.dimension("moe_intermediate_size", 7688)
    shared = config.dimension("moe_shared_expert_intermediate_size", 7688)
    latent = config.optional("moe_latent_size")
    inside = latent or hidden
    pieces: list[Piece] = [
        ("mixer.experts.up_proj", (experts, width, inside), "expert"),
        ("mixer.experts.down_proj", (experts, inside, width), "expert"),
        *linear("mixer.gate", experts, hidden, "router"),
        *_plain(config, hidden, shared, "mixer.shared_experts"),
    ]
    if latent:
        bias = config.flag("mlp_bias", default=False)
        pieces += linear("mixer.fc1_latent_proj", latent, hidden, "mlp", bias)
        pieces += linear("mixer.fc2_latent_proj", hidden, latent, "mlp", bias)
    mlp = Mlp(
        kind="experts",
        intermediate_size=width,
        num_experts=experts,
        num_experts_per_token=chosen,
        num_shared_experts=1,
    )
    return Block(
        mlp=mlp,
        pieces=[*before, *pieces],
        buffers=[("mixer.gate.e_score_correction_bias", (experts,), "router")],
    )


def _plain(config: Config, hidden: int, width: int, name: str) -> list[Piece]:
    bias = config.flag("mlp_bias", default=False)
    return plain_mlp(hidden, width, up=f"{name}.up_proj", down=f"{name}.down_proj", bias=bias)
