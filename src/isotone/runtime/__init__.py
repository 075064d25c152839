"""The live runtime: an endpoint over TCP connections under asyncio."""
