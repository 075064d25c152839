"""View-synchronous membership: detector, proposals of views, flush, stability."""
