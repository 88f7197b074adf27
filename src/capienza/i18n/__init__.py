"""Texts in the reader's language: English as written in the code, Italian from the catalogue.

Used by `report` and the faces only. The engine carries codes and parameters; here they become sentences.
"""
