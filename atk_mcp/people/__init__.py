"""The commands of `atk` with which a person looks at what is stored: tables, pages, a verdict for CI."""
