"""``python -m pdnas``, the same as ``pdnas``."""

import sys

from pdnas.cli import main

sys.exit(main())
