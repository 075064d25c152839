"""State transfer: a process that comes to a view without the group's state gets it as of the beginning of that view."""
