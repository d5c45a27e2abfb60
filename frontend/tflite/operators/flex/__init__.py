"""TensorFlow operators that a converter kept as Flex operators."""
