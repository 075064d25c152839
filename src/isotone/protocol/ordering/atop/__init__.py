"""`atop`: adaptive symmetric total order (paper 000 §4-§7): a mechanism that orders by distributions, policies that make them."""
