"""The vocabulary of the library: ids, views, records, events, settings, errors. Data only."""
