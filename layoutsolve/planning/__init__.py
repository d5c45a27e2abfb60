"""Plans: how all tensors of a model lie in memory, as a file that other compilers take (``docs/plans.md``)."""
