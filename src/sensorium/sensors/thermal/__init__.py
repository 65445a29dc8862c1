"""Temperature sensors: a grid of cells with conduction, contact, convection and radiation."""
