"""The program that a card asks for, to be traced: a training or a generation by transformers."""
