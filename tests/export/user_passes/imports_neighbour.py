from .neighbour import Mine

__all__ = ["Mine"]
