"""Devices and offers: data with sources, and what an offer's own words mean."""
