"""Moving a running group from one orderer to another (paper 004), and deciding when."""
