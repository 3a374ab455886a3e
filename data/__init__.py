"""Crafted texts, templates, word lists and the embedded model; imports nothing else of rolecall."""
