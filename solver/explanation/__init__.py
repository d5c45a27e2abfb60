"""Why a move is there, and what would remove it."""
