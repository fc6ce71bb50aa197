import json

import tvm

raise RuntimeError(f"{__name__} was imported, with {tvm} and {json}")
