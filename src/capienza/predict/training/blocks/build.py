"""From an architecture and a recipe to the modules of a decoder."""

from __future__ import annotations

from capienza.architecture.model import Architecture, Parameter
from capienza.predict.training.blocks.attention import Attention
from capienza.predict.training.blocks.decoder import Decoder, Layer
from capienza.predict.training.blocks.mlp import Gated
from capienza.predict.training.blocks.modules import Adapter, Linear, Norm
from capienza.predict.training.tape import Weight
from capienza.recipe.recipe import Recipe

ITEM = {"bf16": 2, "fp16": 2, "fp32": 4}


class Builder:
    """Makes modules of parameters, in the recipe's formats."""

    def __init__(self, architecture: Architecture, recipe: Recipe) -> None:
        self.architecture, self.recipe = architecture, recipe
        self.by_name = {one.name: one for one in architecture.parameters}

    def weight(self, one: Parameter) -> Weight:
        """A matrix as [results, inputs], a vector as one column."""
        recipe = self.recipe
        rows, columns = one.shape if len(one.shape) == 2 else (one.elements, 1)
        trained = recipe.method == "full"
        precision = recipe.precision
        if trained:
            return Weight(rows, columns, ITEM[precision.trained], True)
        if precision.quantised and one.layer is not None and len(one.shape) == 2 and one.role in ("attention", "mlp"):
            return Weight(rows, columns, 1, False, precision.quantised)
        wide = precision.widens_rest or (precision.widens_norms and one.role == "norm")
        return Weight(rows, columns, 4 if wide else ITEM[precision.base], False)

    def linear(self, name: str) -> Linear:
        one = self.by_name[f"{name}.weight"]
        bias = self.by_name.get(f"{name}.bias")
        weight = self.weight(one)
        return Linear(weight, self.weight(bias) if bias else None, self.adapter(name, one, weight))

    def adapter(self, name: str, one: Parameter, weight: Weight) -> Adapter | None:
        adapters = self.recipe.adapters
        if adapters is None or one.layer is None:
            return None
        if adapters.targets != ("all-linear",) and not any(name.endswith(end) for end in adapters.targets):
            return None
        item = ITEM[adapters.dtype]
        return Adapter(
            Weight(adapters.rank, weight.columns, item, True),
            Weight(weight.rows, adapters.rank, item, True),
            adapters.dropout > 0,
        )

    def norm(self, name: str) -> Norm:
        weight = self.weight(self.by_name[f"{name}.weight"])
        return Norm(weight, None, weight.rows, "rms")

    def layer(self, place: int) -> Layer:
        recipe, root = self.recipe, f"model.layers.{place}"
        shape = self.architecture.layers[place].attention
        assert shape is not None
        module = Attention(
            query=self.linear(f"{root}.self_attn.q_proj"),
            key=self.linear(f"{root}.self_attn.k_proj"),
            value=self.linear(f"{root}.self_attn.v_proj"),
            out=self.linear(f"{root}.self_attn.o_proj"),
            heads=shape.num_attention_heads,
            key_heads=shape.num_key_value_heads,
            head=shape.key_head_dim,
            batch=recipe.microbatch,
            tokens=recipe.tokens,
        )
        mlp = Gated(*(self.linear(f"{root}.mlp.{one}_proj") for one in ("gate", "up", "down")))
        return Layer(
            self.norm(f"{root}.input_layernorm"), module, self.norm(f"{root}.post_attention_layernorm"), mlp
        )

    def decoder(self, places: list[int]) -> Decoder:
        recipe = self.recipe
        table = self.weight(self.by_name["model.embed_tokens.weight"])
        head = Linear(table) if self.architecture.tied_head else self.linear("lm_head")
        kind = recipe.checkpointing.kind
        if kind == "full" and recipe.checkpointing.is_reentrant:
            kind = "reentrant"
        return Decoder(
            embedding=table,
            layers=tuple(self.layer(place) for place in places),
            last=self.norm("model.norm"),
            head=head,
            batch=recipe.microbatch,
            tokens=recipe.tokens,
            checkpointing=kind,
            entry_wants_gradient=recipe.method != "full" and kind != "none",
        )
