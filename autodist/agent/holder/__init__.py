"""The program on the machine: it starts the workers, listens to them, and cleans up after them."""
