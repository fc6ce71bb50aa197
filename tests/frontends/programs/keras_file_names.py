"""Equal models give one file; other weights or another batch give another."""

from keras_network import make
from prelude import FOLDER, resolve

first = resolve(make(), batch=2, folder=FOLDER)
assert resolve(make(), batch=2, folder=FOLDER) == first
assert resolve(make(seed=1), batch=2, folder=FOLDER).sha256 != first.sha256
assert resolve(make(), batch=3, folder=FOLDER).sha256 != first.sha256
