"""How long models take, and what runtimes execute of them."""
