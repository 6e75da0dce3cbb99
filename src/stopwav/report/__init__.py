"""Reports for people: numbers with the digits the data support, tables, and findings in plain words."""
