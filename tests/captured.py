"""What the hooks of one forward pass saw, by layer."""

from rolecall.analyses.hooks import read_patterns, read_z


def patterns_of(model, ids, **given):
    """The attention pattern of each layer."""
    seen = {}
    read_patterns(model, ids, lambda layer, pattern: seen.update({layer: pattern}), **given)
    return seen


def z_of(model, ids):
    """The z of each layer."""
    seen = {}
    read_z(model, ids, lambda layer, z: seen.update({layer: z}))
    return seen
