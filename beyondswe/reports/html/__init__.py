"""The report as one HTML file that opens from disk: `attempts` gathers what it holds, `document` writes it."""
