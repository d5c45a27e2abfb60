"""The strategies: each makes an assignment of layouts of a graph."""
