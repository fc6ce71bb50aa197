"""Inference engines side by side: one adapter each, a worker that serves one of them, and the rounds that time them."""
