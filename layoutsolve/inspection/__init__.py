"""What people are shown of a model or a conversion: stages as text, operator support, explanations."""
