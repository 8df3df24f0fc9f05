"""What the stores of the tests are called."""

from __future__ import annotations

ACCOUNT, CONTAINER = "devstoreaccount1", "lakes"
SERVER = f"{ACCOUNT}.dfs.core.windows.net"
# Azurite's account and its key are the same everywhere; it publishes them.
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
