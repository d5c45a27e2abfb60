"""layoutsolve within other tools: a module each, which imports that tool."""
