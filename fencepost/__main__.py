"""`python -m fencepost`, the same as the console command."""

import sys

from fencepost.main import main

sys.exit(main())
