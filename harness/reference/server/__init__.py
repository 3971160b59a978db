"""HTTP in front of the engines: routes, dialects, streams."""
