"""What the tests of the engines share: settings of the libraries beneath them."""

import contextlib

with contextlib.suppress(ImportError):
    from stopwav.models.weights import keep_off_tiles

    # oneDNN reads its settings when it is first used, which may be in any test.
    keep_off_tiles()
