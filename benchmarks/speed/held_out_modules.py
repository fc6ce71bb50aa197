"""Recommenders and graph networks written out, with random weights: gather, scatter, and products of few columns."""

from itertools import pairwise
from typing import Any

import torch
from torch import nn

FIELDS, VALUES, WIDTH = 26, 1000, 16
"""Categorical features of an item, values of each, and columns of their vectors."""

NODES, EDGES, FEATURES = 2048, 8192, 64
"""Size of a graph, and columns of a node."""


def _layers(*widths: int) -> nn.Sequential:
    """Return dense layers with ReLU between them."""
    parts: list[nn.Module] = []
    for before, after in pairwise(widths):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class Categories(nn.Module):
    """One table for all categorical features; each has its own part of it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(FIELDS * VALUES, WIDTH)
        self.register_buffer("offsets", VALUES * torch.arange(FIELDS))

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        """Return vectors of shape ``[batch, FIELDS, WIDTH]``."""
        return self.table(places + self.offsets)


class MixtureOfGates(nn.Module):
    """Experts that two tasks share, weighted by a gate for each task (Ma et al., KDD 2018, MMoE)."""

    def __init__(self, experts: int = 8) -> None:
        super().__init__()
        columns = FIELDS * WIDTH
        self.categories = Categories()
        self.experts = nn.ModuleList(_layers(columns, 256, 128) for _ in range(experts))
        self.gates = nn.ModuleList(nn.Linear(columns, experts) for _ in range(2))
        self.towers = nn.ModuleList(_layers(128, 64, 1) for _ in range(2))

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        """Return a probability for each task."""
        features = self.categories(places).flatten(1)
        answers = torch.stack([expert(features) for expert in self.experts], 1)
        mixed = [(gate(features).softmax(-1).unsqueeze(-1) * answers).sum(1) for gate in self.gates]
        return torch.cat([tower(each) for tower, each in zip(self.towers, mixed, strict=True)], 1).sigmoid()


class ProductNetwork(nn.Module):
    """Inner products of all pairs of vectors before dense layers (Qu et al., ICDM 2016, PNN)."""

    def __init__(self) -> None:
        super().__init__()
        self.categories = Categories()
        first, second = torch.triu_indices(FIELDS, FIELDS, offset=1)
        self.register_buffer("first", first)
        self.register_buffer("second", second)
        self.deep = _layers(FIELDS * WIDTH + len(first), 400, 400, 1)

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        """Return a probability."""
        vectors = self.categories(places)
        pairs = (vectors[:, self.first] * vectors[:, self.second]).sum(-1)
        return self.deep(torch.cat([vectors.flatten(1), pairs], 1)).sigmoid()


class InterestNetwork(nn.Module):
    """A user's history, weighted by what each event has in common with the item (Zhou et al., KDD 2018, DIN)."""

    def __init__(self, items: int = 20_000, columns: int = 64) -> None:
        super().__init__()
        self.items = nn.Embedding(items, columns)
        self.weigh, self.score = _layers(4 * columns, 80, 40, 1), _layers(2 * columns, 200, 80, 1)

    def forward(self, history: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        """Return a probability for each item."""
        seen, wanted = self.items(history), self.items(item).unsqueeze(1)
        wanted_each = wanted.expand_as(seen)
        weights = self.weigh(torch.cat([seen, wanted_each, seen - wanted_each, seen * wanted_each], -1))
        interest = (weights.sigmoid() * seen).sum(1)
        return self.score(torch.cat([interest, wanted.squeeze(1)], 1)).sigmoid()


def _summed(values: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the sum of the edges' rows at each node, by scatter."""
    places = targets.unsqueeze(-1).expand_as(values)
    return values.new_zeros(NODES, values.shape[1]).scatter_add(0, places, values)


class GraphConvolutions(nn.Module):
    """Three layers over a list of edges, normalised by degrees (Kipf and Welling, ICLR 2017, GCN)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(FEATURES, FEATURES) for _ in range(3))

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Return features of the nodes; ``edges`` has sources and targets, shape ``[2, EDGES]``."""
        sources, targets = edges
        degrees = 1 + _summed(torch.ones(EDGES, 1), targets)
        scale = degrees.rsqrt()
        for layer in self.layers:
            sent = layer(nodes) * scale
            nodes = torch.relu((_summed(sent[sources], targets) + sent) * scale)
        return nodes


class IsomorphismNetwork(nn.Module):
    """Sums of neighbours through perceptrons, and their sum over the graph (Xu et al., ICLR 2019, GIN)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_layers(FEATURES, FEATURES, FEATURES) for _ in range(4))
        self.norms = nn.ModuleList(nn.BatchNorm1d(FEATURES) for _ in range(4))
        self.classes = nn.Linear(FEATURES, 10)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Return scores of the classes of the graph."""
        sources, targets = edges
        for layer, norm in zip(self.layers, self.norms, strict=True):
            nodes = torch.relu(norm(layer(nodes + _summed(nodes[sources], targets))))
        return self.classes(nodes.mean(0, keepdim=True))


class ContinuousFilters(nn.Module):
    """Filters of distances between atoms, along a list of edges (Schuett et al., NeurIPS 2017, SchNet)."""

    def __init__(self, steps: int = 50) -> None:
        super().__init__()
        self.register_buffer("centres", torch.linspace(0, 5, steps))
        self.atoms = nn.Embedding(100, FEATURES)
        self.filters = nn.ModuleList(_softplus(steps, FEATURES) for _ in range(3))
        self.before = nn.ModuleList(nn.Linear(FEATURES, FEATURES, bias=False) for _ in range(3))
        self.after = nn.ModuleList(_softplus(FEATURES, FEATURES) for _ in range(3))
        self.energy = _softplus(FEATURES, 1)

    def forward(self, atoms: torch.Tensor, places: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Return an energy of each atom; ``places`` has three coordinates of each."""
        sources, targets = edges
        distances = ((places[sources] - places[targets]).square().sum(-1, keepdim=True) + 1e-6).sqrt()
        basis = torch.exp(-10 * (distances - self.centres).square())
        nodes = self.atoms(atoms)
        for weigh, before, after in zip(self.filters, self.before, self.after, strict=True):
            nodes = nodes + after(_summed(before(nodes)[sources] * weigh(basis), targets))
        return self.energy(nodes)


def _softplus(columns: int, others: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(columns, FEATURES), nn.Softplus(), nn.Linear(FEATURES, others))


def module_of(name: str) -> tuple[nn.Module, tuple[Any, ...]]:
    """Return a module with random weights, and its inputs."""
    torch.manual_seed(0)
    places = torch.randint(0, VALUES, (64, FIELDS))
    nodes, edges = torch.randn(NODES, FEATURES), torch.randint(0, NODES, (2, EDGES))
    atoms, coordinates = torch.randint(0, 100, (NODES,)), 3 * torch.rand(NODES, 3)
    makers: dict[str, tuple[type[nn.Module], tuple[Any, ...]]] = {
        "mmoe": (MixtureOfGates, (places,)),
        "pnn": (ProductNetwork, (places,)),
        "din": (InterestNetwork, (torch.randint(0, 20_000, (64, 50)), torch.randint(0, 20_000, (64,)))),
        "gcn": (GraphConvolutions, (nodes, edges)),
        "gin": (IsomorphismNetwork, (nodes, edges)),
        "schnet": (ContinuousFilters, (atoms, coordinates, edges)),
    }
    kind, inputs = makers[name]
    return kind(), inputs
