"""Eight small models, and what each stage of their conversion prints."""
