"""The versions of the API, one package each."""
