"""Flyball inside other people's training loops. Nothing here is imported unless you ask for it."""
