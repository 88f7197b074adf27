"""Gemma's embeddings for each layer: one table for all layers, a part of which enters each of them."""

from __future__ import annotations

import msgspec

from capienza.architecture.pieces import Piece, linear, norm


class PerLayerInputs(msgspec.Struct, frozen=True):
    """`vocab` rows of the table, `width` elements for each layer."""

    vocab: int
    width: int

    def layer_pieces(self, hidden: int) -> list[Piece]:
        """What lets a layer take its part."""
        return [
            *linear("per_layer_input_gate", self.width, hidden, "mlp"),
            *linear("per_layer_projection", hidden, self.width, "mlp"),
            *norm("post_per_layer_input_norm", hidden),
        ]

    def model_pieces(self, hidden: int, num_layers: int) -> list[Piece]:
        """The table, and the projection of the ordinary embedding that is added to it."""
        return [
            ("model.embed_tokens_per_layer.weight", (self.vocab, num_layers * self.width), "embedding"),
            *linear("model.per_layer_model_projection", num_layers * self.width, hidden, "other"),
            *norm("model.per_layer_projection_norm", self.width),
        ]
