"""From an architecture and a recipe to the modules of a decoder.

Parameters tell what a block holds, by the last words of their names; a layer with a parameter that no part takes is
refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from capienza.architecture.model import Architecture, Parameter
from capienza.architecture.model import Mlp as MlpShape
from capienza.errors import InputError, template
from capienza.predict.training.blocks import litgpt
from capienza.predict.training.blocks.attention import Attention
from capienza.predict.training.blocks.decoder import Decoder, Layer
from capienza.predict.training.blocks.experts import Experts
from capienza.predict.training.blocks.joined import KEEPS_UPDATE_SINCE, joined_product
from capienza.predict.training.blocks.loss import Head
from capienza.predict.training.blocks.mlp import Mlp
from capienza.predict.training.blocks.modules import Adapter, Linear, Norm
from capienza.predict.training.blocks.plain import implementation, plain
from capienza.predict.training.blocks.products import Shape
from capienza.predict.training.blocks.traits import traits_of
from capienza.predict.training.releases import bitsandbytes_release, litgpt_release, release, torchtune_release
from capienza.predict.training.tape import Weight
from capienza.recipe.recipe import Recipe

GROUPED_SINCE, NARROW_GROUPS_SINCE = (4, 55), (5, 13)
"""transformers: grouped heads are left to PyTorch without a mask; from the second on only heads up to 256 are.

`use_gqa_in_sdpa` (integrations/sdpa_attention.py) as 4.53, 4.55, 5.11, 5.12 and 5.13 ship it; pull request 46960.
"""
LOSS_WIDENS_SINCE = (4, 46)
"""Release of transformers since which the loss, not the model, takes logits to fp32 (loss/loss_utils.py)."""
OTHERWISE = ("falcon", "bloom", "mpt", "gptj", "codegen", "persimmon", "apertus")
"""Model types whose parameters look like others' but whose blocks do not run like theirs (ALiBi, broadcast heads)."""
OF_LITGPT = ("falcon",)
"""Of these, those that LitGPT writes with its one block."""
SCALES_LATE_SINCE = (0, 5)
"""Release of torchtune since which a norm's weight is applied in fp32 (modules/rms_norm.py)."""
OF_TORCHTUNE = ("llama", "mistral", "gemma")
"""Model types whose blocks torchtune makes of its one layer, with positions that turn neighbours."""
OWN_LOSS = {"gpt_bigcode": (4, 50)}
"""Model types whose own code made the loss up to a release, without fp32 (modeling_gpt_bigcode.py of 4.48)."""
KEEPS_CACHE = {"gpt_bigcode": (4, 50)}
"""Model types that keep keys and values of a checkpointed layer, up to a release: a view of all that `c_attn` made
(modeling_gpt_bigcode.py: `present = key_value if use_cache`, and no word that a cache goes ill with checkpointing)."""
REMOTE_LOSS = ("qwen",)
"""Model types whose modeling code comes with their weights: the loss reads a shifted copy of the logits, in their
format (modeling_qwen.py of Qwen-7B)."""
EXPERT_PARTS = ("gate", "gate_up_proj", "down_proj")
GROUPED_SINCE = (5, 0)
"""Release of transformers since which experts are two fused tensors."""
LABELS_SHIFT_SINCE = (4, 50)
"""Release of transformers since which labels are shifted, not logits: a fused kernel in its place got the copy too."""
FUSED_KERNELS = ("liger", "foak", "unsloth")
"""Whose norms and rotary positions are one kernel each, which writes over its gradients."""
FUSED_GATES = ("liger", "unsloth")
"""Whose gated products are too; those of fms-acceleration are, as its measured runs show, transformers' own."""
WITHOUT_ROWS_SINCE = (0, 43, 2)
"""Release of bitsandbytes since which a 4-bit product does not hold its input (autograd/_functions.py)."""
UNPACKING: dict[str, Literal["once", "copied", "indexed"]] = {"litgpt": "copied", "torchtune": "indexed"}
"""Lightning quantises from fp16 (BitsandbytesPrecision); torchtune's NF4 is torchao's."""
DEFAULT_PIECES = 8
"""Of a chunked loss that does not say (torchtune's CEWithChunkedOutputLoss)."""
ITEM = {"bf16": 2, "fp16": 2, "fp32": 4}
JOINED = ("qkv_proj", "c_attn", "query_key_value", "Wqkv")
SLICED = ("qkv_proj",)
OUT = ("o_proj", "out_proj", "dense", "c_proj", "wo")
JOINED_GATE = ("gate_up_proj",)
GATE = ("gate_proj", "w2")
"""Qwen's own code calls its gate w2 and what it multiplies w1 (modeling_qwen.py)."""
UP = ("up_proj", "fc1", "c_fc", "dense_h_to_4h", "w1")
DOWN = ("down_proj", "fc2", "c_proj", "dense_4h_to_h")
QUERY_NORM, KEY_NORM = ("q_norm", "q_layernorm", "query_layernorm"), ("k_norm", "k_layernorm", "key_layernorm")
BEFORE_ATTENTION = ("input_layernorm", "ln_1", "attention_layernorm", "self_attn_layer_norm", "ln_attn")
BEFORE_MLP = ("pre_feedforward_layernorm", "ln_2", "feedforward_layernorm", "ln_mlp")
AFTER_ATTENTION = ("post_self_attn_layernorm",)
AFTER_MLP = ("post_feedforward_layernorm", "post_mlp_layernorm")
MIDDLE = ("post_attention_layernorm",)
"""Before the feed-forward part, unless another norm is there or none stands before attention."""

NOT_COVERED = template(
    "training.not-covered",
    "the activations of {part} in {model_type} are not covered",
    "trace the card: it runs the program itself",
)


class Builder:
    """Makes modules of parameters, in the recipe's formats."""

    def __init__(self, architecture: Architecture, recipe: Recipe, config: Mapping[str, Any] | None = None) -> None:
        of_litgpt = OF_LITGPT if recipe.kernels == "litgpt" else ()
        if architecture.model_type in OTHERWISE and architecture.model_type not in of_litgpt:
            raise InputError(NOT_COVERED(part="the block", model_type=architecture.model_type))
        self.architecture, self.recipe = architecture, recipe
        self.traits = plain(traits_of(architecture.model_type, config), recipe.kernels)
        self.is_fused = recipe.kernels in FUSED_KERNELS
        self.is_litgpt = recipe.kernels == "litgpt"
        self.is_torchtune = recipe.kernels == "torchtune" and architecture.model_type in OF_TORCHTUNE
        self.quantised_roles = ("attention", "mlp", "head") if self.is_litgpt else ("attention", "mlp")
        self.outside: dict[str, Parameter] = {}
        self.layers: list[dict[str, Parameter]] = [{} for _ in architecture.layers]
        for one in architecture.parameters:
            if one.layer is None:
                self.outside[one.name] = one
            elif one.layer < len(self.layers):
                self.layers[one.layer][one.name] = one

    def decoder(self, places: Sequence[int]) -> Decoder:
        """The model with those layers only."""
        recipe, traits = self.recipe, self.traits
        embeddings = [one for one in self.outside.values() if one.role == "embedding"]
        positions = [one for one in self.outside.values() if one.role == "position"]
        norms = [name for name, one in self.outside.items() if one.role == "norm" and name.endswith("weight")]
        table = self.weight(embeddings[0])
        if self.architecture.tied_head and not self.is_litgpt:
            head = Linear(table)
        elif self.architecture.tied_head:
            head = self.linear_of(msgspec.structs.replace(embeddings[0], role="head"))
        else:
            name = next(name for name, one in self.outside.items() if one.role == "head" and name.endswith("weight"))
            head = self.linear(name.removesuffix(".weight"), self.outside)
        kind: str = recipe.checkpointing.kind
        if kind == "full" and recipe.checkpointing.is_reentrant:
            kind = "reentrant"
        return Decoder(
            embedding=table,
            positions=self.weight(positions[0]) if positions else None,
            layers=tuple(self.layer(place) for place in places),
            last=self.norm(norms[0].removesuffix(".weight"), self.outside) if norms else self.bare_norm(),
            head=self.head(head),
            batch=recipe.sequences,
            tokens=recipe.tokens,
            checkpointing=kind,
            entry_wants_gradient=recipe.method != "full" and kind != "none",
            scales=traits.scales,
            has_dropout="embedding" in traits.dropouts,
            **(self.cache() if kind != "none" else {}),
        )

    def cache(self) -> dict[str, Any]:
        """The cache that the model keeps although its layers are checkpointed: a view of all that `c_attn` made."""
        shape, precision = self.architecture.layers[0].attention, self.recipe.precision
        if shape is None or not self.is_before(KEEPS_CACHE.get(self.architecture.model_type, (0, 0))):
            return {}
        keys_and_values = 2 * shape.num_key_value_heads * shape.key_head_dim
        # Autocast leaves a layer norm's rows in fp32, and a quantised product gives back what format it is given.
        is_wide = precision.quantised is not None and precision.autocast is not None
        converts = precision.widens_outputs and not is_wide
        return {
            "cache_width": shape.num_attention_heads * shape.key_head_dim + keys_and_values,
            # A rank's program gives back what a layer takes at the end of the layer's own part.
            "is_cached_late": self.recipe.parallel.sharding != "none",
            "cache_item": ITEM["fp32" if is_wide else precision.autocast or precision.trained],
            "converted_width": keys_and_values * len(self.architecture.layers) if converts else 0,
        }

    def head(self, module: Linear) -> Head:
        """The head with its loss, as the recipe and the release of transformers run it."""
        recipe, loss = self.recipe, self.recipe.loss
        at = transformers_release(recipe)
        rows = recipe.rows_tokens
        is_own = at is not None and at < OWN_LOSS.get(self.architecture.model_type, (0, 0))
        is_remote = self.architecture.model_type in REMOTE_LOSS
        return Head(
            module=module,
            kind=loss.kind,
            rows=rows,
            widens=loss.widens and not (is_own or is_remote),
            widens_first=at is not None and at < LOSS_WIDENS_SINCE,
            shifts=loss.shifts or is_remote or (loss.kind == "fused" and at is not None and at < LABELS_SHIFT_SINCE),
            pieces=min(-(-rows // loss.chunk_tokens), litgpt.MOST_PIECES) if loss.chunk_tokens else DEFAULT_PIECES,
            scales="logits" in self.traits.scales,
            caps="logits" in self.traits.caps,
            widens_outputs=recipe.precision.widens_outputs,
            keeps_outputs=loss.keeps_outputs,
            sequences=recipe.sequences,
            is_normalised=loss.is_normalised,
            piece_rows=max(
                recipe.microbatch * (loss.chunk_tokens or litgpt.PIECE_TOKENS), -(-rows // litgpt.MOST_PIECES)
            ),
            is_whole=recipe.method == "full",
        )

    def layer(self, place: int) -> Layer:
        """One block."""
        own, traits = self.layers[place], self.traits
        found = {name.removesuffix(".weight").removesuffix(".bias"): one for name, one in own.items()}
        last = {name.rpartition(".")[2]: name for name in found if found[name].role == "norm"}
        before = _first(last, BEFORE_ATTENTION)
        before_mlp, after, after_mlp = (_first(last, names) for names in (BEFORE_MLP, AFTER_ATTENTION, AFTER_MLP))
        middle = _first(last, MIDDLE)
        if middle is not None:
            if before is None or before_mlp is not None:
                after = middle
            else:
                before_mlp = middle
        bare = self.bare_norm() if not last else None
        used = {before, before_mlp, after, after_mlp}
        attention, taken = self.attention(place, found)
        kind = self.architecture.layers[place].mlp
        if self.is_litgpt and kind is not None and kind.kind == "experts":
            raise InputError(NOT_COVERED(part="experts", model_type=self.architecture.model_type))
        mlp, more = self.experts(found, kind) if kind is not None and kind.kind == "experts" else self.mlp(found)
        used |= taken | more
        for name in found:
            if name not in used:
                raise InputError(NOT_COVERED(part=name, model_type=self.architecture.model_type))
        return Layer(
            before_attention=self.norm(before, own) if before else bare,
            attention=attention,
            after_attention=self.norm(after, own) if after else None,
            before_mlp=self.norm(before_mlp, own) if before_mlp else bare,
            mlp=mlp,
            after_mlp=self.norm(after_mlp, own) if after_mlp else None,
            is_parallel=traits.is_parallel,
            held=frozenset({"attention"}) if self.is_torchtune else traits.held,
            scales_residual="residual" in traits.scales,
            has_dropout="residual" in traits.dropouts,
            is_litgpt=self.is_litgpt,
        )

    def attention(self, place: int, found: Mapping[str, Parameter]) -> tuple[Attention, set[str | None]]:
        """The layer's attention, and the modules it takes."""
        recipe, traits = self.recipe, self.traits
        shape, own = self.architecture.layers[place].attention, self.layers[place]
        if shape is None or shape.kind not in ("full", "sliding"):
            kind = shape.kind if shape is not None else "state"
            raise InputError(NOT_COVERED(part=f"attention ({kind})", model_type=self.architecture.model_type))
        last = {name.rpartition(".")[2]: name for name, one in found.items() if one.role == "attention"}
        norms = {name.rpartition(".")[2]: name for name, one in found.items() if "attn" in name or "attention" in name}
        query_norm, key_norm = _first(norms, QUERY_NORM), _first(norms, KEY_NORM)
        joined, out = _first(last, JOINED), _first(last, OUT)
        three = [_first(last, (f"{one}_proj",)) for one in "qkv"]
        if out is None or (joined is None and None in three):
            raise InputError(NOT_COVERED(part="attention", model_type=self.architecture.model_type))
        query, key, value = (self.linear(one, own) if one and not joined else None for one in three)
        head_norm = self.norm(query_norm, own) if query_norm else None
        if self.is_litgpt and query_norm:
            raise InputError(NOT_COVERED(part=query_norm, model_type=self.architecture.model_type))
        if self.is_litgpt:
            names = [joined] if joined else [str(one) for one in three]
            keeps = litgpt_release(recipe) >= KEEPS_UPDATE_SINCE
            one_product: Linear | None = joined_product(
                [self.linear(one, own) for one in names], shape, keeps_update=keeps
            )
        else:
            one_product = self.linear(joined, own) if joined else None
        made = Attention(
            query=query,
            key=key,
            value=value,
            joined=one_product,
            is_sliced=bool(joined) and str(joined).endswith(SLICED),
            out=self.linear(out, own),
            query_norm=head_norm,
            key_norm=self.norm(key_norm, own) if key_norm else None,
            heads_first=head_norm is not None and head_norm.width > shape.key_head_dim,
            rotary="paired" if self.is_torchtune else traits.rotary,
            rotary_fp32=traits.rotary_fp32,
            rotary_share=traits.rotary_share,
            is_fused=self.is_fused,
            repeats=self.is_torchtune,
            joins_rotary=traits.joins_rotary or traits.rotary_share < 1,
            has_dropout="residual" in traits.dropouts,
            shape=self.shape(place),
        )
        return made, {joined, out, query_norm, key_norm, *three}

    def shape(self, place: int) -> Shape:
        """Sizes of the layer's attention, and how it is run."""
        recipe, shape = self.recipe, self.architecture.layers[place].attention
        assert shape is not None
        window = shape.window if shape.kind == "sliding" else None
        is_multiplied_out = self.is_litgpt and "attention" in self.traits.caps
        return Shape(
            batch=recipe.sequences,
            tokens=recipe.tokens,
            heads=shape.num_attention_heads,
            key_heads=shape.num_key_value_heads,
            head=shape.key_head_dim,
            implementation="eager" if is_multiplied_out else implementation(recipe),
            has_mask=window is not None and window < recipe.tokens,
            is_capped="attention" in self.traits.caps,
            # Sequences of several lengths are padded, and padding makes a mask.
            keeps_groups=recipe.sequences == 1
            and GROUPED_SINCE <= release(recipe, "transformers") < NARROW_GROUPS_SINCE,
            has_dropout="attention" in self.traits.dropouts,
        )

    def mlp(self, found: Mapping[str, Parameter]) -> tuple[Mlp, set[str | None]]:
        """The layer's feed-forward part, and the modules it takes."""
        last = {name.rpartition(".")[2]: name for name, one in found.items() if one.role == "mlp"}
        gate, joined = _first(last, GATE), _first(last, JOINED_GATE)
        up, down = joined or _first(last, UP), _first(last, DOWN)
        if up is None or down is None:
            raise InputError(NOT_COVERED(part="mlp", model_type=self.architecture.model_type))
        place = found[up].layer
        assert place is not None
        own = self.layers[place]
        made = Mlp(
            gate=self.linear(gate, own) if gate else None,
            up=self.linear(up, own),
            down=self.linear(down, own),
            activation=self.traits.activation,
            is_joined=joined is not None,
            is_fused=self.recipe.kernels in FUSED_GATES,
        )
        return made, {gate, up, down}

    def experts(self, found: Mapping[str, Parameter], kind: MlpShape) -> tuple[Experts, set[str | None]]:
        """The layer's experts, and the modules they take: a router and two fused tensors."""
        last = {name.rpartition(".")[2]: name for name, one in found.items() if one.role in ("expert", "router")}
        router, up, down = last.get("gate"), last.get("gate_up_proj"), last.get("down_proj")
        if router is None or up is None or down is None or len(last) > len(EXPERT_PARTS):
            raise InputError(NOT_COVERED(part=sorted(last)[0], model_type=self.architecture.model_type))
        adapters = self.recipe.adapters
        if adapters is not None and (adapters.targets == ("all-linear",) or set(adapters.targets) & set(EXPERT_PARTS)):
            raise InputError(NOT_COVERED(part="adapters of experts", model_type=self.architecture.model_type))
        made = Experts(
            router=self.weight(found[router]),
            up=self.weight(found[up]),
            down=self.weight(found[down]),
            chosen=kind.num_experts_per_token,
            hidden=self.architecture.hidden_size,
            inner=kind.intermediate_size,
            activation=self.traits.activation,
            wide_shares=self.traits.wide_shares,
            loop=kind.num_experts if self.recipe.method != "full" and self.is_before(GROUPED_SINCE) else 0,
        )
        return made, {router, up, down}

    def is_before(self, release: tuple[int, int]) -> bool:
        """Is transformers known to be older?"""
        found = transformers_release(self.recipe)
        return found is not None and found < release

    def weight(self, one: Parameter) -> Weight:
        """A matrix as [results, inputs], a vector as one column."""
        precision = self.recipe.precision
        rows, columns = one.shape if len(one.shape) == 2 else (one.elements // one.shape[-1], one.shape[-1])
        if len(one.shape) == 1:
            rows, columns = one.elements, 1
        if one.transposed:
            rows, columns = columns, rows
        if one.role in ("embedding", "head"):
            rows += self.recipe.added_tokens
        if self.recipe.method == "full":
            return Weight(rows, columns, ITEM[precision.trained], True)
        if precision.quantised and len(one.shape) == 2 and one.role in self.quantised_roles:
            return Weight(rows, columns, 1, False, precision.quantised)
        wide = precision.widens_rest or (precision.widens_norms and one.role == "norm")
        return Weight(rows, columns, 4 if wide else ITEM[precision.base], False)

    def linear(self, name: str, own: Mapping[str, Parameter]) -> Linear:
        """A module by its name."""
        one, bias = own[f"{name}.weight"], own.get(f"{name}.bias")
        made = self.linear_of(one)
        return msgspec.structs.replace(
            made, bias=self.weight(bias) if bias else None, adapter=self.adapter(name, one, made.weight)
        )

    def linear_of(self, one: Parameter) -> Linear:
        """A module of a matrix alone."""
        holds_rows = bitsandbytes_release(self.recipe) < WITHOUT_ROWS_SINCE
        return Linear(self.weight(one), holds_rows=holds_rows, unpacking=UNPACKING.get(self.recipe.kernels, "once"))

    def adapter(self, name: str, one: Parameter, weight: Weight) -> Adapter | None:
        """The low-rank pair beside a module, if it is a target."""
        adapters = self.recipe.adapters
        if adapters is None or one.layer is None:
            return None
        if adapters.targets != ("all-linear",) and not any(f".{name}".endswith(f".{end}") for end in adapters.targets):
            return None
        item = ITEM[adapters.dtype]
        return Adapter(
            Weight(adapters.rank, weight.columns, item, True),
            Weight(weight.rows, adapters.rank, item, True),
            adapters.dropout > 0,
            Weight(weight.rows, 1, item, True) if adapters.is_dora else None,
        )

    def norm(self, name: str, own: Mapping[str, Parameter]) -> Norm:
        """A norm by its name. One with a bias is PyTorch's layer norm, unless the family has its own."""
        one, bias = own[f"{name}.weight"], own.get(f"{name}.bias")
        kind: str = "layer" if bias is not None and self.traits.norm == "rms" else self.traits.norm
        if self.is_fused and kind.startswith("rms"):
            kind = "fused"
        if self.is_litgpt and kind.startswith("rms"):
            kind = "rms_wide"
        if self.is_torchtune and kind == "rms" and torchtune_release(self.recipe) >= SCALES_LATE_SINCE:
            kind = "rms_late"
        weight = self.weight(one)
        return Norm(weight, self.weight(bias) if bias else None, weight.rows, kind)

    def bare_norm(self) -> Norm:
        """A norm without parameters (OLMo)."""
        return Norm(None, None, self.architecture.hidden_size, "layer_fp32")


def _first(found: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((found[name] for name in names if name in found), None)


def transformers_release(recipe: Recipe) -> tuple[int, int] | None:
    """Major and minor of transformers, where the recipe tells them."""
    told = dict(recipe.libraries).get("transformers")
    if told is None and recipe.framework in ("transformers", "trl"):
        told = recipe.framework_version if recipe.framework == "transformers" else None
    found = re.match(r"(\d+)\.(\d+)", told or "")
    return (int(found[1]), int(found[2])) if found else None
