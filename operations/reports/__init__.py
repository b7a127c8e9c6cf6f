"""Reports: what the sealed records say, as a page, as Markdown, as JUnit XML and as JSON."""
