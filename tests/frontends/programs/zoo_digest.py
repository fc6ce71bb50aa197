"""Print the digest of a built-in network."""

import hashlib

from passsearch.frontends.zoo import build

print(hashlib.sha256(build("bert_tiny").SerializeToString()).hexdigest())
