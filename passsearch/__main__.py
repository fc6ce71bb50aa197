"""The command line as a module: ``python -m passsearch``."""

import sys

from passsearch.cli import main

sys.exit(main())
